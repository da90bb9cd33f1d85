"""Say of what all nodes have of an image which one keeps it, and which are given it.

images: {step: look}     ask the node for the image, and note the node's address in the cluster
images: {step: plan}     of what each node said of this image: all come to each pin set together
images: {step: share}    what the nodes that share it are told, once the keeper wrote it to a file
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from plugins.node_action import NodeAction
from plugins.sharing import shared

LOOKED = "__container_image_looked"  # as tasks/main.yml registers what a node said


class ActionModule(NodeAction):
    """`images:` with a `step`, as the file's first lines say."""

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        if arguments["step"] == "look":
            looked = self.result("image:look", self.value("container_image_spec"))
            return {**looked, "address": self.address()}
        answers = self.answers(LOOKED)
        looked = {host: answer for host, answer in answers.items() if answer}
        planned = plan({host: answer["image"] for host, answer in looked.items()})
        if arguments["step"] == "plan":
            return {"changed": False, **planned}
        keeper = planned["keeper"]
        name = Path(self.value("container_image_spec")["archive"]).name
        share_plan = {
            "identity": {name: self.answers("__container_image_saved")[keeper]["identity"]},
            "gives": {keeper: [name]},
            "gets": {host: [name] for host in planned["needy"]},
        }
        return {"changed": False, "shared": shared(share_plan, self.addresses(LOOKED))}


def plan(images: Mapping[str, str]) -> dict[str, Any]:
    """Return who keeps an image, whether it builds it, and who needs it, of node to the id there.

    The first node that has it gives it to those that have none or another; the first of all builds
    it where none has it, so that it has one id everywhere.
    """
    keeper = next((host for host, image in images.items() if image), next(iter(images)))
    image_id = images[keeper]
    other_hosts = [host for host in images if host != keeper]
    needy = [host for host in other_hosts if not image_id or images[host] != image_id]
    return {"keeper": keeper, "build": not image_id, "needy": needy}
