"""What of a learner's outputs and prose may be shown in somebody else's browser.

Everything here goes by lists of what is allowed. A learner's HTML and SVG keep their look and their alt text; scripts,
handlers, links that run something, remote pictures, forms, and styles that could lay one thing over another do not.
"""

from __future__ import annotations

import base64
import binascii
import html as escaping
import re
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

from autograder import wire

TEXT_CAP = 120_000
HTML_CAP = 2_000_000
MARKDOWN_CAP = 40_000
#: how many openings of formulas a text of prose may have, each of which is sought to its end
FORMULAS = 200
#: tags in any HTML, and in HTML whose every tag is plain and which is nested no deeper than DEPTH
TAGS, PLAIN_TAGS, DEPTH = 1_500, 40_000, 100
ATTRIBUTES = 200
STYLE_CAP = 10_000
_HTML_TAGS = [
    "a",
    "abbr",
    "b",
    "blockquote",
    "br",
    "caption",
    "cite",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "mark",
    "meter",
    "ol",
    "p",
    "pre",
    "progress",
    "q",
    "s",
    "samp",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "tt",
    "u",
    "ul",
    "var",
]
_SVG_TAGS = [
    "svg",
    "g",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "text",
    "tspan",
    "title",
    "desc",
    "defs",
    "clipPath",
    "linearGradient",
    "stop",
    "pattern",
    "marker",
    "symbol",
    "use",
    "mask",
]
_ATTRIBUTES = [
    "align",
    "alt",
    "aria-describedby",
    "aria-hidden",
    "aria-label",
    "aria-labelledby",
    "colspan",
    "cx",
    "cy",
    "d",
    "dir",
    "dominant-baseline",
    "dx",
    "dy",
    "fill",
    "fill-opacity",
    "fill-rule",
    "font-family",
    "font-size",
    "font-style",
    "font-weight",
    "gradientTransform",
    "gradientUnits",
    "height",
    "high",
    "id",
    "lang",
    "low",
    "marker-end",
    "marker-start",
    "markerHeight",
    "markerUnits",
    "markerWidth",
    "max",
    "min",
    "offset",
    "opacity",
    "open",
    "optimum",
    "orient",
    "paint-order",
    "patternTransform",
    "patternUnits",
    "points",
    "preserveAspectRatio",
    "r",
    "refX",
    "refY",
    "role",
    "rowspan",
    "rx",
    "ry",
    "scope",
    "shape-rendering",
    "span",
    "start",
    "stop-color",
    "stop-opacity",
    "stroke",
    "stroke-dasharray",
    "stroke-dashoffset",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-miterlimit",
    "stroke-opacity",
    "stroke-width",
    "style",
    "text-anchor",
    "title",
    "transform",
    "valign",
    "value",
    "version",
    "viewBox",
    "width",
    "x",
    "x1",
    "x2",
    "xmlns",
    "y",
    "y1",
    "y2",
    "clip-path",
    "clip-rule",
    "clipPathUnits",
    "patternContentUnits",
    "mask",
    "href",
    "xlink:href",
    "src",
    "focusable",
    "tabindex",
]
_PROPERTIES = re.compile(
    r"""(?:background(?:-color)?|border(?:-(?:top|right|bottom|left))?(?:-(?:color|style|width|radius))?|
    border-(?:collapse|spacing|radius)|border-(?:top|bottom)-(?:left|right)-radius|caption-side|clip-path|clip-rule|
    color|column-gap|display|dominant-baseline|empty-cells|fill(?:-opacity|-rule)?|flex(?:-(?:basis|direction|flow|
    grow|shrink|wrap))?|font(?:-(?:family|size|style|variant|variant-numeric|weight))?|gap|grid-template-columns|
    align-(?:items|content|self)|justify-(?:items|content|self)|height|letter-spacing|line-height|
    list-style(?:-type)?|margin(?:-(?:top|right|bottom|left))?|(?:max|min)-(?:width|height)|opacity|
    overflow(?:-x|-y|-wrap)?|padding(?:-(?:top|right|bottom|left))?|row-gap|shape-rendering|stop-color|stop-opacity|
    stroke(?:-(?:dasharray|dashoffset|linecap|linejoin|miterlimit|opacity|width))?|table-layout|text-(?:align|
    anchor|decoration|indent|overflow|transform)|vertical-align|white-space|width|word-(?:break|spacing|wrap)|
    box-sizing|mix-blend-mode|paint-order|tab-size)""",
    re.X,
)
_LOCAL = re.compile(r"url\(\s*(['\"]?)#[\w.-]+\1\s*\)")
_BAD_VALUE = re.compile(r"url|expression|image|src\(|attr\(|element\(|[\\@<>{}]|/\*|javascript", re.I)


def css(style: str) -> str:
    """A style attribute with only what is allowed; nothing that places, covers, loads or shifts out of its box."""
    kept = []
    for declaration in _without_comments(style[:STYLE_CAP]).split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not value or not _PROPERTIES.fullmatch(name) or _BAD_VALUE.search(_LOCAL.sub("", value)):
            continue
        if name.startswith(
            ("margin", "text-indent", "word-spacing", "letter-spacing")
        ) and "-" in _without_var(value):
            continue
        if name == "display" and "contents" in value.lower():
            continue
        kept.append(f"{name}: {value}")
    return "; ".join(kept)


def _without_comments(style: str) -> str:
    first, *others = style.split("/*")
    return first + "".join(part.partition("*/")[2] for part in others)


def _without_var(value: str) -> str:
    return re.sub(r"var\(--[\w-]+", "", value)


class _Css:
    """bleach's hook for style attributes."""

    def sanitize_css(self, style: str) -> str:
        return css(style)


#: attributes whose value may name something to be drawn
_PAINTS = ("fill", "stroke", "mask", "clip-path", "marker-start", "marker-end")


def _attribute(tag: str, name: str, value: str) -> bool:
    if name not in _ATTRIBUTES:
        return False
    if name in ("href", "xlink:href"):
        if tag == "a":
            return value.startswith(("https://", "http://", "mailto:", "#"))
        return value.startswith("#")
    if name == "src":
        return tag == "img" and bool(_PICTURE.fullmatch(value) or _is_drawing(value))
    if name in _PAINTS and _BAD_VALUE.search(_LOCAL.sub("", value)):
        return False
    if name != "style" and ("url(" in value.lower()):
        return bool(_LOCAL.fullmatch(value.strip()))
    return True


_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=\s]+")
_DRAWING = "data:image/svg+xml;base64,"


def _is_drawing(address: str) -> bool:
    """Whether an address holds an SVG of nothing but shapes and text, as the course's own pictures are.

    Shown as an image it could run and load nothing anyway; this holds for who opens it alone, too.
    """
    if not address.startswith(_DRAWING):
        return False
    from defusedxml import ElementTree

    try:
        text = base64.b64decode(address[len(_DRAWING) :], validate=True).decode("utf-8")
        text = re.sub(r"\A\s*<\?xml [^<>?]*\?>", "", text)
        if "<?" in text or "<!" in text:
            return False
        top = ElementTree.fromstring(text, forbid_dtd=True)
    except Exception:  # whatever is wrong with it
        return False
    refers = {part: _references(_local(part.tag), _plainly(part)) for part in top.iter()}
    targets = set().union(*refers.values())
    nested = any(refers[below] for part in refers if part.get("id") in targets for below in part.iter())
    return not nested and all(_is_shape(part) for part in refers)


def _plainly(part: Any) -> dict[str, str]:
    return {_local(name): value for name, value in part.attrib.items()}


def _is_shape(part: Any) -> bool:
    tag = _local(part.tag)
    if tag == "style":
        rules = re.sub(r"@media\s*\(prefers-color-scheme:\s*dark\)", "", part.text or "")
        return not part.attrib and not len(part) and not _BAD_VALUE.search(re.sub(r"[{}]", "", rules))
    return tag in _SVG_TAGS and all(
        (name == "class" or name.startswith("data-") or _attribute(tag, name, value))
        and (name != "style" or not _BAD_VALUE.search(_LOCAL.sub("", value)))
        for name, value in _plainly(part).items()
    )


def _local(name: str) -> str:
    """A name without the namespace that an XML parser puts before it."""
    space, end, rest = name.rpartition("}")
    return f"xlink:{rest}" if end and space.endswith("xlink") else rest


@cache
def _cleaner() -> Any:
    import bleach
    from bleach.html5lib_shim import BleachHTMLTokenizer

    state = BleachHTMLTokenizer.attributeNameState

    def attribute_name(self: Any) -> Any:
        # the tokenizer compares each name with all before it
        if len(self.currentToken["data"]) > ATTRIBUTES:
            raise ValueError("a tag with too many attributes")
        return state(self)

    BleachHTMLTokenizer.attributeNameState = attribute_name
    return bleach.Cleaner(
        tags=frozenset(_HTML_TAGS + _SVG_TAGS),
        attributes=_attribute,
        protocols={"http", "https", "mailto", "data"},
        strip=True,
        strip_comments=True,
        css_sanitizer=_Css(),
        filters=[_OwnIds, _FlatReferences],
    )


class _OwnIds:
    """bleach's filter by which no id of a learner's is one of the page's, while references between theirs hold."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Any:
        for token in self.source:
            data = token.get("data")
            if token["type"] in ("StartTag", "EmptyTag") and isinstance(data, dict):
                for key, value in data.items():
                    data[key] = _own(key[1], value)
            yield token


class _FlatReferences:
    """bleach's filter by which nothing that is drawn by reference refers to anything itself: nested, a few lines of SVG
    would keep a browser busy for ever.
    """

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Any:
        tokens = list(self.source)
        open_: list[str] = []
        targets: set[str] = set()
        holders: set[str] = set()
        for token in tokens:
            if token["type"] in ("StartTag", "EmptyTag"):
                data = token["data"]
                name = next((value for key, value in data.items() if key[1] == "id"), "")
                if refers := _references(token["name"], {key[1]: value for key, value in data.items()}):
                    targets |= refers
                    holders |= {*open_, name}
                if token["type"] == "StartTag":
                    open_.append(name)
            elif token["type"] == "EndTag" and open_:
                open_.pop()
        nested = (targets & holders) - {""}
        for token in tokens:
            if nested and token["type"] in ("StartTag", "EmptyTag"):
                data = token["data"]
                for key in [k for k, v in data.items() if _references(token["name"], {k[1]: v})]:
                    del data[key]
            yield token


def _references(tag: str, attributes: dict[str, str]) -> set[str]:
    """Ids of what an SVG element has drawn elsewhere."""
    found = {part for value in attributes.values() for part in re.findall(r"url\(\s*['\"]?#([\w.-]+)", value)}
    for name in ("href", "xlink:href"):
        if tag != "a" and attributes.get(name, "").startswith("#"):
            found.add(attributes[name][1:])
    return found


def _own(name: str, value: str) -> str:
    if name in ("id", "aria-labelledby", "aria-describedby"):
        return " ".join(f"shown-{part}" for part in value.split())
    if name == "href" and value.startswith("#"):
        return f"#shown-{value[1:]}"
    return re.sub(r"(url\(\s*['\"]?#)", r"\1shown-", value) if "url(" in value else value


_SILENT = re.compile(
    r"<\s*(script|style|iframe|object|template|noscript|math)\b.*?(?:<\s*/\s*\1\s*>|\Z)", re.S | re.I
)


#: what turns the order of letters round, as it stands or as an entity
_BIDI = re.compile(
    r"[\u202a-\u202e\u2066-\u2069]|&#(?:0*(?:823[4-8]|829[4-7])|x0*(?:202[a-e]|206[6-9]))(?!\w);?", re.I
)
#: an SVG element that ends where it begins; outside of SVG it would not
_EMPTY = re.compile(rf"<({'|'.join(_SVG_TAGS)})(\s[^<>]*)?/>")
_TAG = re.compile(r"""</?([a-zA-Z][\w:-]*)(?:\s+[\w:.-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=`]+))?)*\s*/?>""")
_VOID = frozenset(["br", "hr", "img", "col", "wbr", "input", "link", "meta"])
_ENDS_ITSELF = frozenset(["p", "li", "dt", "dd"])


def _simple(text: str) -> bool:
    """Whether the parser gets through it in a time that its length bounds: few tags, or plain ones, not too deep."""
    count = text.count("<")
    if count <= TAGS:
        return True
    if count > PLAIN_TAGS or "<!--" in text:
        return False
    open_: list[str] = []
    for part in text.split("<")[1:]:
        inside, end, _ = part.partition(">")
        found = _TAG.fullmatch(f"<{inside}>") if end else None
        if found is None:
            return False
        name = found[1].lower()
        if inside.startswith("/"):
            if open_ and open_[-1] == name:
                open_.pop()
        elif name not in _VOID and not (name in _ENDS_ITSELF and open_[-1:] == [name]):
            open_.append(name)
            if len(open_) > DEPTH:
                return False
    return True


def html(text: str) -> str:
    """HTML or SVG with only what is allowed, in a box that nothing in it can leave."""
    if len(text) > HTML_CAP:
        return "<p>[an output too large to show]</p>"
    text = _BIDI.sub("", text)
    text = _SILENT.sub("", re.sub(r"<\?[^<>]*>|<!DOCTYPE[^<>]*>", "", text, flags=re.I))
    text = _EMPTY.sub(r"<\1\2></\1>", text)
    if not _simple(text):
        return as_text(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clean = _cleaner().clean(text)
    except Exception:  # html5lib gives up on some nonsense
        return as_text(text)
    return f'<div style="contain: paint; overflow: auto">{clean}</div>'


def code(text: str) -> str:
    """A learner's code as it is shown: what would turn the order of its letters round is named in place of done."""
    return re.sub(r"[\u202a-\u202e\u2066-\u2069]", lambda sign: f"<U+{ord(sign[0]):04X}>", text)


def as_text(text: str) -> str:
    """A text as itself, in a page."""
    return f'<pre style="overflow: auto">{escaping.escape(_BIDI.sub("", text[:TEXT_CAP]), quote=False)}</pre>'


@cache
def _markdown() -> Any:
    from nbconvert.filters import markdown2html

    return markdown2html


def markdown(text: str) -> str:
    """Markdown as sanitised HTML; what is too long or too tangled to be read as Markdown, as the text it is."""
    formulas = sum(text.count(opening) for opening in ("\\begin{", "\\[", "\\("))
    if len(text) > MARKDOWN_CAP or formulas > FORMULAS:
        return as_text(text)
    try:
        made = _markdown()(text)
    except Exception:  # such as a picture attached that is not there
        return as_text(text)
    return html(made)


class Cleaning:
    """Cleans one notebook's HTML and prose, as long as that is not too much; what is beyond is shown as text.

    The cost is estimated from sizes, so that the same notebook comes out the same on every machine.
    """

    def __init__(self, seconds: float = 20.0) -> None:
        self.left = seconds * 1e6

    def html(self, text: str) -> str:
        each = 0.8 if _DRAWING in text else 0.125
        return self._afforded(html, text, 40.0 * (text.count("<") + text.count("&")) + each * len(text))

    def markdown(self, text: str) -> str:
        return self._afforded(markdown, text, 55.0 * len(text))

    def _afforded(self, clean: Any, text: str, microseconds: float) -> str:
        if microseconds > self.left:
            return as_text(text)
        self.left -= microseconds
        return clean(text)


# ---------------------------------------------------------------- outputs


def outputs(
    made: Any, hide: Iterable[str] = (), cleaning: Cleaning | None = None, *, ours: bool = False
) -> list[dict]:
    """A cell's outputs as they may be kept: known types only, capped, cleaned, no path of the grader's machine.

    `ours` outputs come from the lesson's own cells, run without any learner's code: their HTML is kept as it is.
    """
    cleaning = None if ours else cleaning or Cleaning()
    kept = []
    for output in made if type(made) is list else ():
        one = _output(output, tuple(hide), cleaning) if type(output) is dict else None
        if one is not None:
            kept.append(one)
    return kept[:120]


def _output(output: dict, hide: tuple[str, ...], cleaning: Cleaning | None) -> dict | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": text(output.get("text"), hide)}
    if kind == "error":
        trace = output.get("traceback")
        lines = [text(line, hide) for line in (trace if type(trace) is list else [])[:100]]
        ename, evalue = text(output.get("ename"), hide)[:200], text(output.get("evalue"), hide)[:2000]
        return {"output_type": "error", "ename": ename or "Error", "evalue": evalue, "traceback": lines}
    if kind in ("display_data", "execute_result"):
        data = _bundle(output.get("data"), hide, cleaning)
        if not data:
            return None
        made = {"output_type": kind, "data": data, "metadata": _alt(output.get("metadata"))}
        if kind == "execute_result":
            count = output.get("execution_count")
            made["execution_count"] = count if type(count) is int and 0 <= count < 10**6 else None
        return made
    return None


def text(value: Any, hide: Iterable[str] = ()) -> str:
    """Plain text, capped, without control characters other than colours, and without the given paths."""
    if type(value) is not str:
        return ""
    value = value[:TEXT_CAP].encode("utf-8", "replace").decode("utf-8")
    value = _ESCAPE.sub(lambda found: found[0] if _is_colour(found[1]) else "", value)
    value = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "", value)
    for path in sorted((p for p in hide if len(p) > 3), key=len, reverse=True):
        value = value.replace(path, "…")
    return value


#: errors whose kind is told even where it came with a drawn input: few, so that the kind says little about the input
_USUAL_ERRORS = (
    "ArithmeticError", "AttributeError", "IndexError", "KeyError", "NameError", "OverflowError", "RecursionError",
    "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError",
)  # fmt: skip


def reply(made: dict) -> dict:
    """A reply to a call on a drawn input with nothing in it that could hold the input, for the words on a card.

    A worker may write what it likes into a reply, and the feedback would hand it on: texts, names of types and of
    errors, line numbers and lines of code.
    """
    if type(made.get("error")) is str:
        kind = made["error"].partition(":")[0]
        if kind in ("NameError", "UnboundLocalError"):
            return {"error": f"{kind}: a name in it"}
        return {"error": kind if kind in _USUAL_ERRORS else "an error"}
    if "refused" in made:
        return {"refused": _NO_VALUE}
    return {key: _blind(part) if key in ("ok", "value") else part for key, part in made.items()}


_NO_VALUE = "it is no plain value of a usual size"


def _blind(node: Any) -> Any:
    """An encoded value with its texts and names of types taken out."""
    if isinstance(wire.decode(node), wire.Refused):
        return {"t": "refused", "v": _NO_VALUE}
    return _without_texts(node)


def _without_texts(node: Any) -> Any:
    if type(node) is list:
        return [_without_texts(part) for part in node]
    if type(node) is not dict:
        return node
    if node.get("t") == "str":
        return {"t": "str", "v": "…"}
    return {key: _without_texts(part) for key, part in node.items() if key != "name"}


_ESCAPE = re.compile(r"\x1b(?:\[([\d;]*)m)?")
_CODE = r"(?:0|[1-9]\d{0,2})"
_COLOURS = re.compile(rf"(?:[34]8;5;{_CODE}|[34]8;2;{_CODE};{_CODE};{_CODE}|(?![34]8(?:;|$)){_CODE})(?:;|$)")


def _is_colour(codes: str | None) -> bool:
    """Whether an escape sequence sets colours in full, so that nbconvert can show it."""
    if codes is None or len(codes) > 60 or codes.endswith(";"):
        return False
    at = 0
    while at < len(codes):
        found = _COLOURS.match(codes, at)
        if found is None or any(int(part) > 255 for part in found[0].split(";") if part):
            return False
        at = found.end()
    return True


def _bundle(data: Any, hide: tuple[str, ...], cleaning: Cleaning | None) -> dict:
    kept = {}
    for kind, body in data.items() if type(data) is dict else ():
        body = "".join(p for p in body if type(p) is str) if type(body) is list else body
        if type(body) is not str:
            continue
        if kind == "text/plain":
            kept[kind] = text(body, hide)
        elif kind in ("text/html", "image/svg+xml"):
            body = text(body, hide) if len(body) <= TEXT_CAP else _hidden(body, hide)
            kept["text/html"] = cleaning.html(body) if cleaning else body
        elif kind == "text/markdown":
            body = _hidden(body, hide)
            kept.setdefault("text/html", cleaning.markdown(body) if cleaning else markdown(body))
        elif kind in ("image/png", "image/jpeg") and (picture := _picture(kind, body)):
            kept[kind] = picture
    return kept


def _hidden(body: str, hide: tuple[str, ...]) -> str:
    for path in hide:
        body = body.replace(path, "…") if len(path) > 3 else body
    return body


_MAGIC = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def _picture(kind: str, body: str) -> str | None:
    try:
        raw = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(raw).decode("ascii") if raw.startswith(_MAGIC[kind]) else None


def _alt(metadata: Any) -> dict:
    alt = metadata.get("alt") if type(metadata) is dict else None
    return {"alt": text(alt)[:500]} if type(alt) is str else {}
