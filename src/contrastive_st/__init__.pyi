from .classification import (
    SentenceClassifier as SentenceClassifier,
)
from .commands import (
    run as run,
)
from .data import (
    CandidatesCollator as CandidatesCollator,
    ContextWindowCollator as ContextWindowCollator,
    CooccurrenceCollator as CooccurrenceCollator,
    CropPairCollator as CropPairCollator,
    DropoutPairCollator as DropoutPairCollator,
    GuidedRows as GuidedRows,
    LabelledPairCollator as LabelledPairCollator,
    Mixture as Mixture,
    MixtureCollator as MixtureCollator,
    NLITripletCollator as NLITripletCollator,
    PairCollator as PairCollator,
    SentenceCorpus as SentenceCorpus,
    TeacherCollator as TeacherCollator,
    WordVectors as WordVectors,
    embedding_matrix as embedding_matrix,
    expand_vocabulary as expand_vocabulary,
    read_examples as read_examples,
    read_texts as read_texts,
    read_word_vectors as read_word_vectors,
    tokenize as tokenize,
    train_word_tokenizer as train_word_tokenizer,
    train_wordpiece as train_wordpiece,
    vector_tokenizer as vector_tokenizer,
    word_tokenizer as word_tokenizer,
)
from .errors import (
    InputError as InputError,
)
from .evaluation import (
    evaluate as evaluate,
)
from .hub import (
    model_soup as model_soup,
)
from .losses import (
    AnglELoss as AnglELoss,
    ConsistentInfoNCE as ConsistentInfoNCE,
    CoSENTLoss as CoSENTLoss,
    CosineSimilarityLoss as CosineSimilarityLoss,
    DocumentInfoNCE as DocumentInfoNCE,
    EmbeddingDistillationLoss as EmbeddingDistillationLoss,
    GuidedInfoNCE as GuidedInfoNCE,
    InfoNCE as InfoNCE,
    KLDistillationLoss as KLDistillationLoss,
    Loss as Loss,
    MarginMSELoss as MarginMSELoss,
    MatryoshkaLoss as MatryoshkaLoss,
    MixtureLoss as MixtureLoss,
    MultiTaskLoss as MultiTaskLoss,
    RelationalDistillationLoss as RelationalDistillationLoss,
    SkipThoughtsLoss as SkipThoughtsLoss,
    SoftmaxLoss as SoftmaxLoss,
    TargetsLoss as TargetsLoss,
    TripletLoss as TripletLoss,
)
from .models import (
    AutoModelForCL as AutoModelForCL,
    BertForCL as BertForCL,
    CamembertForCL as CamembertForCL,
    DebertaV2ForCL as DebertaV2ForCL,
    DistilBertForCL as DistilBertForCL,
    ElectraForCL as ElectraForCL,
    EncoderForCL as EncoderForCL,
    InferSentBiLSTM as InferSentBiLSTM,
    InferSentConfig as InferSentConfig,
    ModernBertForCL as ModernBertForCL,
    MPNetForCL as MPNetForCL,
    QuickThoughtsConfig as QuickThoughtsConfig,
    QuickThoughtsGRU as QuickThoughtsGRU,
    RobertaForCL as RobertaForCL,
    SentenceEncoder as SentenceEncoder,
    SkipThoughts as SkipThoughts,
    SkipThoughtsConfig as SkipThoughtsConfig,
    StaticConfig as StaticConfig,
    StaticEncoder as StaticEncoder,
    UniversalConfig as UniversalConfig,
    UniversalSentenceEncoder as UniversalSentenceEncoder,
    XLMRobertaForCL as XLMRobertaForCL,
    fit_static as fit_static,
    pool as pool,
    student_of as student_of,
)
from .scripts import (
    TrainingParser as TrainingParser,
)
from .search import (
    VectorStore as VectorStore,
    community_detection as community_detection,
    mine_hard_negatives as mine_hard_negatives,
    open_index as open_index,
    paraphrase_mining as paraphrase_mining,
    semantic_search as semantic_search,
    write_hard_negatives as write_hard_negatives,
)
from .training import (
    ContrastiveTrainer as ContrastiveTrainer,
    ContrastiveTrainingArguments as ContrastiveTrainingArguments,
)

__version__: str
