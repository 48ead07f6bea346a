from .classifier import SentenceClassifier as SentenceClassifier
from .heads import LinearHead as LinearHead
from .settings import HEADS as HEADS, TuningSettings as TuningSettings
