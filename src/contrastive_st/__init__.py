"""Contrastive sentence embeddings in the style of transformers: train, evaluate, publish and search.

    encode      SentenceEncoder
    models      AutoModelForCL, BertForCL (and DistilBert, ModernBert, MPNet, Roberta, XLMRoberta), QuickThoughtsGRU,
                EncoderForCL, SkipThoughts, InferSentBiLSTM, UniversalSentenceEncoder, StaticEncoder; their configs;
                pool, fit_static, student_of
    data        read_texts, read_examples, SentenceCorpus, tokenize, train_wordpiece, train_word_tokenizer, WordVectors,
                GuidedRows, Mixture;
                collators: DropoutPair, Pair, NLITriplet, LabelledPair, ContextWindow, Cooccurrence, Teacher, Mixture
    losses      Loss, InfoNCE, ConsistentInfoNCE, GuidedInfoNCE, TargetsLoss, SoftmaxLoss, CosineSimilarityLoss,
                CoSENTLoss, AnglELoss, TripletLoss, MatryoshkaLoss, MixtureLoss, MultiTaskLoss,
                RelationalDistillationLoss, EmbeddingDistillationLoss, SkipThoughtsLoss
    training    ContrastiveTrainer, ContrastiveTrainingArguments, TrainingParser, run, model_soup
    evaluation  evaluate
    search      open_index, VectorStore; mine_hard_negatives, write_hard_negatives
    errors      InputError

`dir(contrastive_st)` lists all these names. Each is imported when it is first used, so `import contrastive_st` is
fast. The sub-packages (`contrastive_st.models`, `.losses`, `.data`, ...) hold the rest. `contrastive-st --help` lists
the commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__version__ = "0.1.0"

#: The public names of each sub-module. (There is no `__all__`: with it, `help` would print every class in full.)
_HOMES = {
    "models": [
        "AutoModelForCL",
        "BertForCL",
        "CamembertForCL",
        "DebertaV2ForCL",
        "DistilBertForCL",
        "ElectraForCL",
        "EncoderForCL",
        "InferSentBiLSTM",
        "InferSentConfig",
        "MPNetForCL",
        "ModernBertForCL",
        "QuickThoughtsConfig",
        "QuickThoughtsGRU",
        "RobertaForCL",
        "SentenceEncoder",
        "SkipThoughts",
        "SkipThoughtsConfig",
        "StaticConfig",
        "StaticEncoder",
        "UniversalConfig",
        "UniversalSentenceEncoder",
        "XLMRobertaForCL",
        "fit_static",
        "pool",
        "student_of",
    ],
    "losses": [
        "AnglELoss",
        "CoSENTLoss",
        "ConsistentInfoNCE",
        "CosineSimilarityLoss",
        "EmbeddingDistillationLoss",
        "GuidedInfoNCE",
        "InfoNCE",
        "Loss",
        "MatryoshkaLoss",
        "MixtureLoss",
        "MultiTaskLoss",
        "RelationalDistillationLoss",
        "SkipThoughtsLoss",
        "SoftmaxLoss",
        "TargetsLoss",
        "TripletLoss",
    ],
    "data": [
        "Mixture",
        "MixtureCollator",
        "ContextWindowCollator",
        "CooccurrenceCollator",
        "DropoutPairCollator",
        "GuidedRows",
        "LabelledPairCollator",
        "NLITripletCollator",
        "PairCollator",
        "SentenceCorpus",
        "TeacherCollator",
        "WordVectors",
        "embedding_matrix",
        "expand_vocabulary",
        "read_examples",
        "read_texts",
        "read_word_vectors",
        "tokenize",
        "train_word_tokenizer",
        "train_wordpiece",
        "vector_tokenizer",
        "word_tokenizer",
    ],
    "training": ["ContrastiveTrainer", "ContrastiveTrainingArguments", "TrainingParser", "model_soup"],
    "evaluation": ["evaluate"],
    "search": ["VectorStore", "mine_hard_negatives", "open_index", "write_hard_negatives"],
    "errors": ["InputError"],
    "terminal": ["run"],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from contrastive_st.data import (
        ContextWindowCollator as ContextWindowCollator,
    )
    from contrastive_st.data import (
        CooccurrenceCollator as CooccurrenceCollator,
    )
    from contrastive_st.data import (
        DropoutPairCollator as DropoutPairCollator,
    )
    from contrastive_st.data import (
        GuidedRows as GuidedRows,
    )
    from contrastive_st.data import (
        LabelledPairCollator as LabelledPairCollator,
    )
    from contrastive_st.data import (
        Mixture as Mixture,
    )
    from contrastive_st.data import (
        MixtureCollator as MixtureCollator,
    )
    from contrastive_st.data import (
        NLITripletCollator as NLITripletCollator,
    )
    from contrastive_st.data import (
        PairCollator as PairCollator,
    )
    from contrastive_st.data import (
        SentenceCorpus as SentenceCorpus,
    )
    from contrastive_st.data import (
        TeacherCollator as TeacherCollator,
    )
    from contrastive_st.data import (
        WordVectors as WordVectors,
    )
    from contrastive_st.data import (
        embedding_matrix as embedding_matrix,
    )
    from contrastive_st.data import (
        expand_vocabulary as expand_vocabulary,
    )
    from contrastive_st.data import (
        read_examples as read_examples,
    )
    from contrastive_st.data import (
        read_texts as read_texts,
    )
    from contrastive_st.data import (
        read_word_vectors as read_word_vectors,
    )
    from contrastive_st.data import (
        tokenize as tokenize,
    )
    from contrastive_st.data import (
        train_word_tokenizer as train_word_tokenizer,
    )
    from contrastive_st.data import (
        train_wordpiece as train_wordpiece,
    )
    from contrastive_st.data import (
        vector_tokenizer as vector_tokenizer,
    )
    from contrastive_st.data import (
        word_tokenizer as word_tokenizer,
    )
    from contrastive_st.errors import (
        InputError as InputError,
    )
    from contrastive_st.evaluation import (
        evaluate as evaluate,
    )
    from contrastive_st.losses import (
        AnglELoss as AnglELoss,
    )
    from contrastive_st.losses import (
        ConsistentInfoNCE as ConsistentInfoNCE,
    )
    from contrastive_st.losses import (
        CoSENTLoss as CoSENTLoss,
    )
    from contrastive_st.losses import (
        CosineSimilarityLoss as CosineSimilarityLoss,
    )
    from contrastive_st.losses import (
        EmbeddingDistillationLoss as EmbeddingDistillationLoss,
    )
    from contrastive_st.losses import (
        GuidedInfoNCE as GuidedInfoNCE,
    )
    from contrastive_st.losses import (
        InfoNCE as InfoNCE,
    )
    from contrastive_st.losses import (
        Loss as Loss,
    )
    from contrastive_st.losses import (
        MatryoshkaLoss as MatryoshkaLoss,
    )
    from contrastive_st.losses import (
        MixtureLoss as MixtureLoss,
    )
    from contrastive_st.losses import (
        MultiTaskLoss as MultiTaskLoss,
    )
    from contrastive_st.losses import (
        RelationalDistillationLoss as RelationalDistillationLoss,
    )
    from contrastive_st.losses import (
        SkipThoughtsLoss as SkipThoughtsLoss,
    )
    from contrastive_st.losses import (
        SoftmaxLoss as SoftmaxLoss,
    )
    from contrastive_st.losses import (
        TargetsLoss as TargetsLoss,
    )
    from contrastive_st.losses import (
        TripletLoss as TripletLoss,
    )
    from contrastive_st.models import (
        AutoModelForCL as AutoModelForCL,
    )
    from contrastive_st.models import (
        BertForCL as BertForCL,
    )
    from contrastive_st.models import (
        CamembertForCL as CamembertForCL,
    )
    from contrastive_st.models import (
        DebertaV2ForCL as DebertaV2ForCL,
    )
    from contrastive_st.models import (
        DistilBertForCL as DistilBertForCL,
    )
    from contrastive_st.models import (
        ElectraForCL as ElectraForCL,
    )
    from contrastive_st.models import (
        EncoderForCL as EncoderForCL,
    )
    from contrastive_st.models import (
        InferSentBiLSTM as InferSentBiLSTM,
    )
    from contrastive_st.models import (
        InferSentConfig as InferSentConfig,
    )
    from contrastive_st.models import (
        ModernBertForCL as ModernBertForCL,
    )
    from contrastive_st.models import (
        MPNetForCL as MPNetForCL,
    )
    from contrastive_st.models import (
        QuickThoughtsConfig as QuickThoughtsConfig,
    )
    from contrastive_st.models import (
        QuickThoughtsGRU as QuickThoughtsGRU,
    )
    from contrastive_st.models import (
        RobertaForCL as RobertaForCL,
    )
    from contrastive_st.models import (
        SentenceEncoder as SentenceEncoder,
    )
    from contrastive_st.models import (
        SkipThoughts as SkipThoughts,
    )
    from contrastive_st.models import (
        SkipThoughtsConfig as SkipThoughtsConfig,
    )
    from contrastive_st.models import (
        StaticConfig as StaticConfig,
    )
    from contrastive_st.models import (
        StaticEncoder as StaticEncoder,
    )
    from contrastive_st.models import (
        UniversalConfig as UniversalConfig,
    )
    from contrastive_st.models import (
        UniversalSentenceEncoder as UniversalSentenceEncoder,
    )
    from contrastive_st.models import (
        XLMRobertaForCL as XLMRobertaForCL,
    )
    from contrastive_st.models import (
        fit_static as fit_static,
    )
    from contrastive_st.models import (
        pool as pool,
    )
    from contrastive_st.models import (
        student_of as student_of,
    )
    from contrastive_st.search import (
        VectorStore as VectorStore,
    )
    from contrastive_st.search import (
        mine_hard_negatives as mine_hard_negatives,
    )
    from contrastive_st.search import (
        open_index as open_index,
    )
    from contrastive_st.search import (
        write_hard_negatives as write_hard_negatives,
    )
    from contrastive_st.terminal import (
        run as run,
    )
    from contrastive_st.training import (
        ContrastiveTrainer as ContrastiveTrainer,
    )
    from contrastive_st.training import (
        ContrastiveTrainingArguments as ContrastiveTrainingArguments,
    )
    from contrastive_st.training import (
        TrainingParser as TrainingParser,
    )
    from contrastive_st.training import (
        model_soup as model_soup,
    )
