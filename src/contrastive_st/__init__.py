"""Contrastive sentence embeddings in the style of transformers: train, evaluate, publish and search.

    encode      SentenceEncoder
    models      AutoModelForCL, BertForCL (and DistilBert, ModernBert, MPNet, Roberta, XLMRoberta), QuickThoughtsGRU,
                EncoderForCL, SkipThoughts, InferSentBiLSTM, UniversalSentenceEncoder, StaticEncoder; their configs;
                pool, fit_static, student_of
    data        read_texts, read_examples, SentenceCorpus, tokenize, train_wordpiece, train_word_tokenizer, WordVectors,
                GuidedRows, Mixture;
                collators: DropoutPair, Pair, NLITriplet, Candidates, LabelledPair, ContextWindow, Cooccurrence,
                Teacher, Mixture
    losses      Loss, InfoNCE, ConsistentInfoNCE, GuidedInfoNCE, TargetsLoss, SoftmaxLoss, CosineSimilarityLoss,
                CoSENTLoss, AnglELoss, TripletLoss, MatryoshkaLoss, MixtureLoss, MultiTaskLoss,
                RelationalDistillationLoss, EmbeddingDistillationLoss, SkipThoughtsLoss, MarginMSELoss,
                KLDistillationLoss
    training    ContrastiveTrainer, ContrastiveTrainingArguments, TrainingParser, run, model_soup
    classify    SentenceClassifier
    evaluation  evaluate
    search      open_index, VectorStore; mine_hard_negatives, write_hard_negatives; semantic_search, paraphrase_mining,
                community_detection
    errors      InputError

`dir(contrastive_st)` lists all these names. Each is imported when it is first used, so `import contrastive_st` is
fast. The sub-packages (`contrastive_st.models`, `.losses`, `.data`, ...) hold the rest. `contrastive-st --help` lists
the commands.
"""

from typing import Any

import lazy_loader

from contrastive_st.processors import follow_quota

__version__ = "1.0.0"

# The names are listed in __init__.pyi
_imported, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


follow_quota()


def __getattr__(name: str) -> Any:
    try:
        return _imported(name)
    except ModuleNotFoundError as error:  # of what the light distribution does without
        from contrastive_st.errors import what_to_install

        raise ModuleNotFoundError(f"{name}: {what_to_install(error)}", name=error.name) from error
