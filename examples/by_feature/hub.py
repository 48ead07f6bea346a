"""Push a checkpoint and its card to the Hub, and open it there by its name.

    python examples/by_feature/hub.py out/demo/tuned user/name --private

The token is that of `hf auth login`, or of $HF_TOKEN. While training, `--push_to_hub true --hub_model_id user/name` of
any training script does the same at every save.
"""

import argparse
import sys

from contrastive_st import SentenceEncoder, run
from contrastive_st.hub.cards import CardData
from contrastive_st.hub.push import pull, push


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="what training saved")
    parser.add_argument("repo", help="user/name")
    parser.add_argument("--private", action="store_true", default=None)
    args = parser.parse_args()

    done = push(args.folder, args.repo, private=args.private, data=CardData(license="apache-2.0", language=["en"]))
    print(f"pushed: {done.commit_url}")
    print(f"pulled into {pull(args.repo)}")

    texts = ["a sentence", "another one"]
    here, there = (SentenceEncoder.from_pretrained(name).encode(texts) for name in (args.folder, args.repo))
    print(f"largest difference of the vectors: {abs(here - there).max()}")


if __name__ == "__main__":
    sys.exit(run(main))
