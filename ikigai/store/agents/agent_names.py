"""Suggest names for agents: two words that are easy to say, type and tell apart."""

import random

ADJECTIVES = (
    "amber autumn bold brave bright brisk calm clear clever coral crisp deep dusty eager early fair fleet gentle "
    "glad golden green hardy hidden humble indigo jolly keen kind late lively lucid lucky mellow merry mild misty "
    "modest nimble noble olive pale patient plain polite proud quick quiet rapid rosy rustic sandy serene sharp "
    "silent silver sly smooth snowy solid spry steady still sunny swift tidy violet warm wary wild windy wise witty"
)
NOUNS = (
    "acorn alder ash aspen badger bay beech birch brook canyon cedar cliff clover cove crane creek crow delta dove "
    "eagle elm falcon fern field finch fjord forest fox gale garden glade grove gull hare harbor hawk hazel heath "
    "heron hill holly island ivy jay juniper lake lark laurel lynx maple marsh meadow moor moss oak orchard osprey "
    "otter owl pebble pine plover pond poplar prairie quail raven reed ridge river robin rowan sage seal shore "
    "sparrow spruce stone stork swan thrush tide trout valley walnut willow wren"
)


def suggest_name(attempt: int) -> str:
    """Return a random name; after eight taken ones, a name with a number."""
    name = f"{random.choice(ADJECTIVES.split())}-{random.choice(NOUNS.split())}"
    return name if attempt < 8 else f"{name}-{random.randrange(10, 10**4)}"
