"""What must hold on a GPU too: exactness, loaders, resuming, encoding, and that no step waits.

They run where a GPU is at hand. With CONTRASTIVE_ST_TEST_DEVICE=cpu they run on the CPU, to see that they do run.
"""

import distributed_worker
import host_waits
import numpy as np
import pytest
import torch
from ranks import relative_error, together
from transformers import AutoModel

from conftest import SENTENCES, device_name, save_both
from contrastive_st import AutoModelForCL, BertForCL, PairCollator, SentenceEncoder
from contrastive_st.speed.packing import PackedRows
from training.test_trainer import trainer_for

pytestmark = [pytest.mark.cuda, pytest.mark.slow]
DEVICE = device_name()


@pytest.fixture(scope="module")
def results():
    """The grid on the CPU by one process, and on the device by one and by two; gloo, since they share one GPU."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for device, world in {("cpu", 1), (DEVICE, 1), (DEVICE, 2)}:
            patch.setenv("CONTRASTIVE_ST_TEST_DEVICE", device)
            found[device, world] = together(world, distributed_worker.main, world)[0]
    return found


@pytest.mark.parametrize("method", [case[0] for case in distributed_worker.SHORT])
def test_the_exactness_grid(results, method):
    case = (method, torch.float64, 0.0)
    there, reference = (results[device, 1][(*case, False, "padded")] for device in ("cpu", DEVICE))
    # The angles of rotary positions are float32, by the cosine of each device.
    assert relative_error(reference["gradients"], there["gradients"]) < 1e-7
    torch.testing.assert_close(reference["losses"][0], there["losses"][0], rtol=1e-7, atol=0)
    for world in (1, 2):
        for cached, rows in distributed_worker.ways(case, world):
            ours = results[DEVICE, world][(*case, cached, rows)]
            torch.testing.assert_close(ours["losses"][0], reference["losses"][0], rtol=1e-8, atol=0)
            assert relative_error(ours["gradients"], reference["gradients"]) < 1e-8, (world, cached, rows)
            assert relative_error(ours["weights"], reference["weights"]) < 1e-6, (world, cached, rows)


def test_three_loaders_give_the_same_embeddings(device, tokenizer, bert_config, tmp_path):
    from sentence_transformers import SentenceTransformer

    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path)
    encoder = SentenceEncoder(tmp_path, device=device)
    ours = torch.from_numpy(encoder.encode(SENTENCES))
    theirs = torch.from_numpy(SentenceTransformer(str(tmp_path), device=str(device)).encode(SENTENCES))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    rows = tokenizer(SENTENCES, padding=True, truncation=True, return_tensors="pt").to(device)
    states = AutoModel.from_pretrained(tmp_path).to(device).eval()(**rows).last_hidden_state
    mask = rows["attention_mask"][..., None]
    torch.testing.assert_close(ours, ((states * mask).sum(1) / mask.sum(1)).detach().cpu(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"chunk_size": 3}, {"momentum_queue": 8}, {"bf16": True}])
def test_a_resumed_run_ends_with_the_same_weights(device, tokenizer, bert_config, tmp_path, changes):
    """Bit for bit but for sums that a GPU takes in any order."""
    options = {"max_steps": 6, "save_steps": 3, "use_cpu": device.type == "cpu", **changes}
    whole = trainer_for(tokenizer, bert_config, tmp_path / "whole", **options)
    whole.train()
    assert next(whole.model.parameters()).device.type == device.type
    again = trainer_for(tokenizer, bert_config, tmp_path / "again", **options)
    torch.manual_seed(99)
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    for (name, a), b in zip(whole.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)
    reopened = AutoModelForCL.from_pretrained(tmp_path / "whole" / "checkpoint-6")
    assert torch.equal(reopened.bert.pooler.dense.weight, whole.model.bert.pooler.dense.weight.cpu())


@pytest.mark.parametrize("step", host_waits.STEPS)
@pytest.mark.parametrize("method", ["info_nce-V3", "guided-V2", "cosent", "mlm", "mixture"])
def test_cuda_itself_finds_no_wait(device, method, step, tmp_path, monkeypatch):
    """`set_sync_debug_mode` raises where the host waits for the device."""
    if "queue" in step and not method.startswith(("info_nce", "guided")):
        pytest.skip("no queue with this loss")
    if device.type != "cuda":
        pytest.skip("CUDA alone can tell")
    found = host_waits.watched(
        method, tmp_path, monkeypatch, on_steps=torch.cuda.set_sync_debug_mode, **host_waits.STEPS[step]
    )
    assert found == []


@pytest.mark.parametrize("dim", [8, 12, 32])
def test_packed_rows_attend_as_padded_ones(device, dim):
    """In half precision, by flash attention where the size of a head allows it: output and gradients."""
    if device.type != "cuda":
        pytest.skip("a CPU attends in groups")
    lengths = np.array([3, 1, 9, 5])
    rows = PackedRows(lengths, 9, device)
    tokens = [torch.randn(1, 2, int(lengths.sum()), dim, device=device) for _ in range(3)]
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        own = [x.to(dtype).requires_grad_() for x in tokens]
        attended = rows.attend(torch.nn.functional.scaled_dot_product_attention, *own, dropout_p=0.0, scale=None)
        found.append([attended, *torch.autograd.grad(attended.float().square().sum(), own)])
    for half, single in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(half.float(), single, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("step", ["plain", "gradcache"])
def test_unpadded_steps_are_the_padded_ones(device, tokenizer, bert_config, tmp_path, monkeypatch, step):
    """By flash attention in bf16 on a GPU, where the host waits for nothing; to rounding."""
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    options = {"use_cpu": device.type == "cpu", "save_strategy": "no", "bf16": True, "optim": "sgd"}
    options |= {"learning_rate": 0.05, **host_waits.STEPS[step]}
    vectors = []
    for unpadded in (False, True):
        trainer = trainer_for(tokenizer, bert_config, tmp_path, PairCollator, unpadded=unpadded, **options)
        trainer.train()
        vectors.append(torch.from_numpy(SentenceEncoder(trainer.model, tokenizer, precision="fp32").encode(SENTENCES)))
    assert torch.nn.functional.cosine_similarity(*vectors).min() > 0.999
    if device.type == "cuda":
        steps = {**host_waits.STEPS[step], "unpadded": True, "bf16": True}
        watch = torch.cuda.set_sync_debug_mode
        assert host_waits.watched("info_nce-V2", tmp_path, monkeypatch, on_steps=watch, **steps) == []
