from .adapters import add_lora as add_lora
from .architectures.infersent import InferSentConfig as InferSentConfig
from .architectures.quickthoughts import QuickThoughtsConfig as QuickThoughtsConfig
from .architectures.skipthoughts import SkipThoughtsConfig as SkipThoughtsConfig
from .architectures.static import StaticConfig as StaticConfig
from .architectures.universal import UniversalConfig as UniversalConfig
from .auto import AutoModelForCL as AutoModelForCL, load_tokenizer as load_tokenizer
from .base import ContrastiveOutput as ContrastiveOutput, ForCL as ForCL
from .encoder import SentenceEncoder as SentenceEncoder
from .families import (
    BertForCL as BertForCL,
    CamembertForCL as CamembertForCL,
    DebertaV2ForCL as DebertaV2ForCL,
    DistilBertForCL as DistilBertForCL,
    ElectraForCL as ElectraForCL,
    Gemma2ForCL as Gemma2ForCL,
    Gemma3ForCL as Gemma3ForCL,
    GemmaForCL as GemmaForCL,
    LlamaForCL as LlamaForCL,
    MistralForCL as MistralForCL,
    ModernBertForCL as ModernBertForCL,
    MPNetForCL as MPNetForCL,
    Qwen2ForCL as Qwen2ForCL,
    Qwen3ForCL as Qwen3ForCL,
    RobertaForCL as RobertaForCL,
    XLMRobertaForCL as XLMRobertaForCL,
)
from .modeling import ContrastiveMixin as ContrastiveMixin
from .poolings import POOLINGS as POOLINGS, pool as pool
from .static_encoder import StaticEncoder as StaticEncoder, fit_static as fit_static
from .students import student_of as student_of
from .word_models import (
    InferSentBiLSTM as InferSentBiLSTM,
    QuickThoughtsGRU as QuickThoughtsGRU,
    SkipThoughts as SkipThoughts,
    UniversalSentenceEncoder as UniversalSentenceEncoder,
)
from .wrapped import EncoderForCL as EncoderForCL
