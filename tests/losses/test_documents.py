"""InfoNCE of pairs from documents: against a plain loop, and what is masked."""

import pytest
import torch
from plain import agree, loop_loss

from contrastive_st.errors import InputError
from contrastive_st.losses import DocumentInfoNCE, InfoNCE, functional as blocks

DOCUMENTS = torch.tensor([0, 0, 3, 1, 3, 0])


@pytest.mark.parametrize("num_views", [2, 4])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("block", [None, 30])
def test_equals_a_plain_loop(num_views, symmetric, duplicates, block, monkeypatch):
    if block:
        monkeypatch.setattr(blocks, "BLOCK", block)
    views = torch.randn(6, num_views, 5, dtype=torch.float64, requires_grad=True)
    keys = torch.arange(6 * num_views).view(6, num_views)
    if duplicates:
        keys[3, 0], keys[4, 1], keys[2, -1] = keys[0, 0], keys[1, 1], keys[4, 1]
    ours = DocumentInfoNCE(0.3, 0.2, symmetric)(views, DOCUMENTS, text_hashes=keys)
    agree(ours, loop_loss(views, 0.3, 0.2, keys, symmetric, DOCUMENTS), views)


def test_documents_of_one_row_each_are_plain_info_nce():
    views = torch.randn(6, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(DocumentInfoNCE()(views, torch.arange(6)), InfoNCE()(views))


@pytest.mark.parametrize(
    ("documents", "words"),
    [(None, "got none"), (torch.zeros(6, 2), r"got \(6, 2\)"), (torch.zeros(6).long(), "no negatives")],
)
def test_wrong_documents(documents, words):
    with pytest.raises(InputError, match=words):
        DocumentInfoNCE()(torch.randn(6, 2, 5), documents)


def test_large_products_on_a_cpu_have_torchs_values_and_gradients():
    a, b = (torch.randn(rows, 7, requires_grad=True) for rows in (1100, 1000))
    kinds = [blocks.matmul_float32(*pair).grad_fn.name() for pair in ((a, b), (a.double(), b.double()), (a, b[:9]))]
    assert ["OneDNN" in kind for kind in kinds] == [True, False, False]
    products, weights = (blocks.matmul_float32(a, b), a @ b.T), torch.randn(1100, 1000)
    torch.testing.assert_close(*products)
    ours, plain = (torch.autograd.grad((product * weights).sum(), (a, b)) for product in products)
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-4)  # sums of 1,000 products, in another order
