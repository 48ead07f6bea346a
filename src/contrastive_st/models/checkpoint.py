"""Open any encoder checkpoint as the ForCL class of its family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from contrastive_st.errors import InputError, first_line
from contrastive_st.models.modeling import FAMILIES
from contrastive_st.models.word_models import InferSentBiLSTM, QuickThoughtsGRU, SkipThoughts, UniversalSentenceEncoder
from contrastive_st.safety.repositories import local_folder

_OWN = (QuickThoughtsGRU, SkipThoughts, InferSentBiLSTM, UniversalSentenceEncoder)
_CLASS_OF = {family.config_class.model_type: family for family in (*FAMILIES, *_OWN)}


class AutoModelForCL:
    """`AutoModelForCL.from_pretrained(name)` gives a `BertForCL`, `RobertaForCL`, ... by the config's family."""

    @classmethod
    def from_pretrained(cls, name: str | Path, **kwargs: Any) -> Any:
        """Open a folder or Hub name; takes what `ForCL.from_pretrained` and `ContrastiveMixin.from_pretrained` take.

        Raises:
            InputError: there is no such checkpoint, its weights are a pickle, it needs remote code, or its family has
                no ForCL class.
        """
        config = kwargs.pop("config", None) or load_config(name, **kwargs)
        return cls._class(config, name).from_pretrained(name, config=config, **kwargs)

    @classmethod
    def from_config(cls, config: PreTrainedConfig, **settings: Any) -> Any:
        """A freshly initialised model of the config's family."""
        return cls._class(config, "this config")(config, **settings)

    @staticmethod
    def _class(config: PreTrainedConfig, name: object) -> Any:
        try:
            return _CLASS_OF[config.model_type]
        except KeyError:
            known = ", ".join(_CLASS_OF)
            raise InputError(f"{name} is of the family {config.model_type!r}; contrastive models: {known}") from None


def load_config(name: str | Path, revision: str | None = None, **options: Any) -> PreTrainedConfig:
    """The config of a folder or Hub name, or one clear line on why it cannot be had; `options` as `local_folder`'s."""
    folder = local_folder(name, revision, patterns=("config.json",), **options)
    if not (folder / "config.json").exists():
        raise InputError(f"{name} is a folder without config.json; give the folder of a saved model")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)  # None would ask at the terminal
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise InputError(
                f"{name} needs code from its own repository; read it, and open it with transformers' "
                "AutoModel.from_pretrained(..., trust_remote_code=True). This package runs no remote code"
            ) from error
        raise InputError(f"cannot read the config of {name}: {first_line(error)}") from error
    except OSError as error:
        raise InputError(f"cannot open {name}: {first_line(error)}") from error
