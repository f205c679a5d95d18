"""Models of images and text whose prompts have image tokens: first gradients on two ranks are PyTorch's.

The table is vision_language.py, which is run by hand for all of them.
"""

import pytest

import vision_language


@pytest.mark.parametrize("name", ["llava", "chameleon", "kosmos2"])
def test_images_take_the_place_of_their_tokens(tmp_path, name):
    vision_language.check(name, tmp_path)
