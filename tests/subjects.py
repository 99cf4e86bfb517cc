"""Every method and the loss of every stage, as subjects of the contract."""

from unspur import masks
from unspur.methods import ERM, Amplified, Confident, Debiased, MaskSearch, own_stages
from unspur.testing import Subject, subject_of


def mask_search(model, inputs):
    head = inputs.head
    masks.attach(model, init=0.5)
    return MaskSearch(model, head=head, sparsity=1e-4)


SUBJECTS = {
    "erm": Subject("erm", lambda model, inputs: ERM(model)),
    "amplified": Subject("amplified", lambda model, inputs: Amplified(model)),
    "confident": Subject("confident", lambda model, inputs: Confident(model)),
    "debiased": Subject("debiased", lambda model, inputs: Debiased(model, head=inputs.head)),
    "mask-search": Subject("mask-search", mask_search, pretrained=True),
    **{name: subject_of(entry) for name, entry in own_stages().items()},
}
