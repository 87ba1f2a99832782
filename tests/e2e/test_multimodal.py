# SPDX-License-Identifier: Apache-2.0
"""The text part of a multimodal checkpoint: weft-demo-chat as the text part of a LLaVA model, with tensors of a
vision tower and a template that reads contents as lists of parts. Its answers are those of weft-demo-chat."""

import json
import pathlib
import shutil
import struct
import tempfile

import harness
from harness import MODELS, chat, expect, messages, start, text_of, user

DEMO = MODELS / "weft-demo-chat"
TURNS = user("hello") + [{"role": "assistant", "content": "hi"}] + user("what is a warp?")
# For contents that are texts, and for lists of parts, with which a content that is a text would vanish.
TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: CONTENT;{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
TEXTS = TEMPLATE.replace("CONTENT", "{{ message['content'] }}")
PARTS = TEMPLATE.replace("CONTENT", "{% for part in message['content'] %}{% if part['type'] == 'text' %}"
                         "{{ part['text'] }}{% endif %}{% endfor %}")


def llava_make(folder):
    """Copies weft-demo-chat: config.json gets a level, tensor names a prefix, a tensor of the other part is added."""
    shutil.copytree(DEMO, folder)
    config = json.loads((DEMO / "config.json").read_text())
    text = {k: v for k, v in config.items() if k not in ("architectures", "torch_dtype", "tie_word_embeddings")}
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "torch_dtype": "bfloat16",
        "image_token_index": 499, "text_config": text, "vision_config": {"model_type": "clip_vision_model"}}))
    data = (DEMO / "model.safetensors").read_bytes()
    start_of_data = 8 + struct.unpack("<Q", data[:8])[0]
    header = {f"language_model.{name}": place for name, place in json.loads(data[8:start_of_data]).items()
              if name != "__metadata__"}
    end = len(data) - start_of_data
    header["vision_tower.vision_model.post_layernorm.weight"] = {
        "dtype": "BF16", "shape": [4], "data_offsets": [end, end + 8]}
    packed = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(packed)) + packed + data[start_of_data:] + bytes(8))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": PARTS}))
    return folder


@harness.once
def server():
    keep = tempfile.TemporaryDirectory()
    template = pathlib.Path(keep.name) / "texts.jinja"
    template.write_text(TEXTS)
    server = start(f"llava={llava_make(pathlib.Path(keep.name) / 'llava')}", f"demo={DEMO},chat-template={template}")
    server.keep = keep
    return server


def test_text_is_served_and_images_are_not():
    line = "of LlavaForConditionalGeneration the text part is served; images are not served"
    assert server().output().count(line) == 1, server().output()
    whole, part = (chat(server(), model=model, messages=TURNS, max_tokens=12) for model in ("demo", "llava"))
    assert text_of(part) == text_of(whole)
    assert part.json["usage"] == whole.json["usage"]
    pieces = [{"role": m["role"], "content": [{"type": "text", "text": m["content"]}]} for m in TURNS]
    assert text_of(chat(server(), model="llava", messages=pieces, max_tokens=12)) == text_of(whole)


def test_images_are_refused_by_name():
    """Also for a model without other parts: the sentence fits both."""
    url = "data:image/png;base64,iVBORw0KGgo="
    text = {"type": "text", "text": "what is this?"}
    for model in "llava", "demo":
        refused = [
            (chat(server(), model=model, messages=[{"role": "user", "content": [
                text, {"type": "image_url", "image_url": {"url": url}}]}]), "messages[0].content[1].type"),
            (server().post("/v1/responses", {"model": model, "input": [{"role": "user", "content": [
                {"type": "input_image", "image_url": url}]}]}), "input[0].content[0].type"),
            (chat(server(), model=model, messages=[{"role": "user", "content": [
                {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}]), "messages[0].content[0].type"),
        ]
        for answer, param in refused:
            expect(answer, 400, "unsupported_content_type", param)
            assert "this server reads text only, also with multimodal models" in answer.error["message"], answer.text
        for kind in "image", "document":
            answer = messages(server(), "2023-06-01", model=model, max_tokens=4, messages=[{"role": "user", "content": [
                text, {"type": kind, "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}])
            assert answer.status == 400, answer.text
            assert f"messages.0.content.1: has the content type '{kind}'" in answer.error["message"], answer.text
