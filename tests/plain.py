"""Plain-loop references: each formula as it is defined, one scalar at a time."""

import torch


def loop_loss(views, temperature, weight=0.0, keys=None, symmetric=False):
    """The definition, one scalar at a time."""

    def cosine(a, b):
        return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())

    def one_way(anchor_view, positive_view, negatives):
        total = 0.0
        for i in range(len(views)):
            positive = cosine(views[i, anchor_view], views[i, positive_view]) / temperature
            terms = [positive]
            for j in range(len(views)):
                same = keys is not None and (
                    keys[j, positive_view] in (keys[i, anchor_view], keys[i, positive_view])
                    or keys[j, anchor_view] == keys[i, anchor_view]
                )
                if j != i and not same:
                    terms.append(cosine(views[i, anchor_view], views[j, positive_view]) / temperature)
                for v in negatives:
                    if keys is not None and keys[j, v] in (keys[i, anchor_view], keys[i, positive_view]):
                        continue
                    own = weight if j == i else 0.0
                    terms.append(cosine(views[i, anchor_view], views[j, v]) / temperature + own)
            total = total - positive + torch.stack(terms).exp().sum().log()
        return total / len(views)

    loss = one_way(0, 1, range(2, views.shape[1]))
    return (loss + one_way(1, 0, [])) / 2 if symmetric else loss


def loop_pool(layers, mask, pooling):
    rows = []
    for i in range(len(mask)):
        real = [t for t in range(mask.shape[1]) if mask[i, t]]
        if pooling in ("cls", "cls_before_pooler"):
            rows.append(layers[-1][i, 0])
        elif pooling == "last":
            rows.append(layers[-1][i, real[-1]])
        elif pooling == "max":
            rows.append(torch.stack([layers[-1][i, t] for t in real]).max(0).values)
        else:
            chosen = {"mean": [-1], "avg_first_last": [1, -1], "avg_top2": [-2, -1]}[pooling]
            rows.append(sum(layers[layer][i, t] for layer in chosen for t in real) / (len(real) * len(chosen)))
    return torch.stack(rows)
