from .embedding_store import EmbeddingStore as EmbeddingStore
from .evaluators import (
    BinaryClassificationEvaluator as BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator as EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator as InformationRetrievalEvaluator,
    PairEvaluator as PairEvaluator,
    TripletEvaluator as TripletEvaluator,
)
from .neighbor_search import neighbors as neighbors
from .suite import (
    SuiteEvaluator as SuiteEvaluator,
    evaluate as evaluate,
    retrieval_evaluator as retrieval_evaluator,
    sts_evaluator as sts_evaluator,
)
