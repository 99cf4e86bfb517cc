"""One file a method; a method is what one training stage minimises.

May import: data, masks, models, noise, training.
"""

from dataclasses import dataclass

from ..training.method import Method
from .amplified import Amplified
from .confident import Confident
from .dcwp import Debiased, MaskSearch
from .disent import DisEnt
from .end import EnD
from .erm import ERM
from .groupdro import GroupDRO
from .lff import LfF
from .rebias import ReBias

METHODS: dict[str, type[Method]] = {
    "erm": ERM,
    "amplified": Amplified,
    "confident": Confident,
    "debiased": Debiased,
    "mask-search": MaskSearch,
    "lff": LfF,
    "disent": DisEnt,
    "end": EnD,
    "rebias": ReBias,
    "groupdro": GroupDRO,
}


@dataclass(frozen=True)
class About:
    """A whole method as a user knows it: its plan, what it must be told, what it trains, who wrote it."""

    title: str
    plan: str
    supervision: str
    networks: str
    source: str


ABOUT: dict[str, About] = {
    "erm": About("ERM", "erm", "nothing", "1", "Vapnik 1991"),
    "dcwp": About("DCWP", "dcwp", "nothing", "2: miner, main", "Park et al., CVPR 2023"),
    "unspur": About("unspur", "dcwp", "nothing", "2: miner, main", "our preset of DCWP"),
    "released-code": About(
        "DCWP, released code", "dcwp", "nothing", "2: miner, main", "Park et al., CVPR 2023"
    ),
    "paper-text": About(
        "DCWP, paper's text", "dcwp", "nothing", "2: miner, main", "Park et al., CVPR 2023"
    ),
    "dcwp-erm": About(
        "DCWP_ERM", "dcwp", "nothing", "2: stopped early, main", "Park et al., CVPR 2023"
    ),
    "dcwp-unpruned": About(
        "DCWP without pruning", "unpruned", "nothing", "2: miner, main", "Park et al., CVPR 2023"
    ),
    "mrm": About("MRM", "mrm", "nothing", "1, trained twice", "Zhang et al., ICML 2021"),
    "mrm-debias": About(
        "MRM_debias", "dcwp", "nothing", "2: miner, main", "Park et al., CVPR 2023"
    ),
    "lff": About("LfF", "lff", "nothing", "2, jointly", "Nam et al., NeurIPS 2020"),
    "disent": About(
        "DisEnt", "disent", "nothing", "2 encoders, 2 heads", "Lee et al., NeurIPS 2021"
    ),
    "jtt": About("JTT", "jtt", "nothing", "2: stopped early, main", "Liu et al., ICML 2021"),
    "rebias": About(
        "ReBias", "rebias", "what kind of bias", "2, in turn", "Bahng et al., ICML 2020"
    ),
    "end": About("EnD", "end", "bias labels", "1", "Tartaglione et al., CVPR 2021"),
    "groupdro": About("GroupDRO", "groupdro", "bias labels", "1", "Sagawa et al., ICLR 2020"),
    "dfr": About("DFR", "dfr", "bias labels", "1, its head twice", "Kirichenko et al., ICLR 2023"),
    "dfr-mined": About(
        "DFR, mined groups", "dfr-mined", "nothing", "2: miner, main", "after Kirichenko et al."
    ),
    "grasp": About("GraSP", "grasp", "nothing", "1", "Wang et al., ICLR 2020"),
    "magnitude": About("magnitude pruning", "mrm", "nothing", "1", "Han et al., NeurIPS 2015"),
    "magnitude-debias": About(
        "DCWP, magnitude masks", "control", "nothing", "2: miner, main", "control of DCWP"
    ),
    "random-debias": About(
        "DCWP, random masks", "control", "nothing", "2: miner, main", "control of DCWP"
    ),
}

__all__ = [
    "ABOUT",
    "ERM",
    "METHODS",
    "About",
    "Amplified",
    "Confident",
    "Debiased",
    "DisEnt",
    "EnD",
    "GroupDRO",
    "LfF",
    "MaskSearch",
    "ReBias",
]
