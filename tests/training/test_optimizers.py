"""RowAdam against torch.optim.SparseAdam and against Adam, and the norm of sparse gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, InputError
from contrastive_st.models import StaticConfig, StaticEncoder
from contrastive_st.training.optimizers import RowAdam, sparse_norm


def trained(optimizer, sparse, steps=5, every_row=False):
    table = nn.Parameter(torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    optimizer = optimizer([table], lr=0.1, betas=(0.8, 0.9), eps=1e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.arange(20) if every_row else torch.randint(0, 20, (12,), generator=generator)  # some twice
        optimizer.zero_grad()
        (
            functional.embedding(ids, table, sparse=sparse) * torch.randn(len(ids), 3, generator=generator)
        ).sum().backward()
        optimizer.step()
    return table.detach()


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_of_the_batch_move_as_by_sparse_adam_and_the_others_stay(sparse):
    torch.testing.assert_close(trained(RowAdam, sparse), trained(torch.optim.SparseAdam, True), rtol=1e-12, atol=1e-12)


def test_with_every_row_in_every_batch_it_is_adam():
    plain = trained(lambda *args, eps, **kwargs: torch.optim.Adam(*args, **kwargs, eps=1e-12), False, every_row=True)
    own = trained(lambda *args, eps, **kwargs: RowAdam(*args, **kwargs, eps=1e-12), True, every_row=True)
    torch.testing.assert_close(own, plain, rtol=1e-9, atol=1e-9)


def test_a_resumed_optimizer_goes_on_as_if_it_had_not_stopped():
    table = nn.Parameter(torch.zeros(4, 2))
    tables = [table, nn.Parameter(table.detach().clone())]
    optimizers = [RowAdam([own]) for own in tables]
    for step in range(4):
        for own, optimizer in zip(tables, optimizers, strict=True):
            own.grad = torch.full((4, 2), float(step + 1))
            optimizer.step()
        state = optimizers[1].state_dict()
        optimizers[1] = RowAdam([tables[1]])
        optimizers[1].load_state_dict(state)
    torch.testing.assert_close(*tables, rtol=0, atol=0)


def test_the_norm_is_that_of_torch():
    found = []
    for sparse in (True, False):
        table, other = nn.Parameter(torch.zeros(9, 2)), nn.Parameter(torch.ones(3))
        (functional.embedding(torch.tensor([4, 4, 7]), table, sparse=sparse).sum() + other.square().sum()).backward()
        norm = sparse_norm([table, other]) if sparse else nn.utils.get_total_norm([table.grad, other.grad])
        found.append(norm)
    torch.testing.assert_close(*found)
    assert sparse_norm([other]) is None


def test_a_static_encoder_has_the_same_gradient_sparse_and_dense():
    ids = torch.tensor([[[2, 7, 7], [8, 9, 0]], [[5, 6, 2], [4, 0, 0]], [[1, 0, 0], [3, 3, 3]]])
    found = []
    for sparse in (True, False):
        torch.manual_seed(0)
        model = StaticEncoder(StaticConfig(12, 4)).double()
        model.sparse_gradient = sparse
        loss = model(ids, attention_mask=(ids > 0).long()).loss
        loss.backward()
        assert model.embeddings.grad.is_sparse == sparse
        found.append((loss, model.embeddings.grad.to_dense()))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_sparse_gradients_are_not_clipped(tmp_path):
    model = StaticEncoder(StaticConfig(12, 4))
    model.sparse_gradient = True
    with pytest.raises(InputError, match="max_grad_norm"):
        ContrastiveTrainer(model, ContrastiveTrainingArguments(str(tmp_path), report_to="none"))
