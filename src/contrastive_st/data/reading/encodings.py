"""In which encoding some bytes that are not Unicode read best: the letters of a language tell.

Each encoding has the languages that are written in it, and each language its characters beyond ASCII, the most frequent
first. The encoding in which the bytes are likeliest, as a text of one of its languages, is the one they are in. One
letter again and again, such as a symbol in each row, is hardly more evidence than once: then the usual encoding is.
"""

from __future__ import annotations

import codecs
import contextlib
import math
import re
from collections import Counter
from functools import cache

_WESTERN = (
    "éèàêçâîôûùëïœü", "üäöß", "óíáéñúü¿¡ºª", "ãçáéíóõêâúàôºª", "èàùòìé", "äåöé", "æøåé", "ëéïöüè", "áðíéþúóöýæ",
    "àéèóòíçïúü·",
    "éèáíóüäöàçñãêåæøßôûîëïõúùòìœðþýš",  # several of them, such as in names
    "’“”–—‘…£€°•éñ", "£°€²³½±•§©®™µ¢¥†×·",  # English
)  # fmt: skip
_CENTRAL = (
    "ąęłóśżćńź", "íáéěýřžščůúňťďó", "íáčéžýšúľťôňďäĺŕó", "éáöőóüíúű", "čšžćđ", "ăîâşţ",
    "áéíóšžčćęąłúýěřśżńźôöüőűůňťďľäăâîşţđ",
)  # fmt: skip
_RUSSIAN = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_CYRILLIC = (
    _RUSSIAN,
    "оаинітверслкмудпязьгйбчхцєжїшюфщґ",
    "аоиенртсјкувдмплзгбчшћжцђљњхфџ",
    "аіноерлысквтпмудязьбгчйўшжцхюё",
)
_KANA = (
    "のにはをたがでてとしれさいるなもかすまあっこうきりくけせそちつどだらえおよやめわろみんばべ"
    "ぎげごじずびぶへほひふむゆねぬぱぷぼぁぃぅぇぉゃゅょーンスルトリアイラックドシレジタフテプロマグコメサュョデ"
    "バカオナニムパエビブチミウキモャセハダソケツワネヤ、。「」・！？（）"
)
_HANZI = (
    "的一是不了在人有我他中大上和地到以要就出也你生而子那得于着下自之年后作里用道行所然家成方多去法如都同看定天分好小"
    "部其些主心本前但因只想，。？！、：；“”（）《》"
)
_SIMPLIFIED = _HANZI + "这个们来为国说时会可对能过发种事经么学当没动面起还进样现理她开从实"
_TRADITIONAL = _HANZI + "這個們來為國說時會可對能過發種事經麼學當沒動面起還進樣現理她開從實於著裡後"
_HANGUL = (
    "이다는을의에가고지한로하기도사서은를시자나어리대과인해그일정스부아수제들있것보라전장으만주상여조구게면거우적원"
)
#: The languages of each encoding by their characters, the most usual encodings of files first
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "cp1252": _WESTERN,
    "cp1250": _CENTRAL,
    "cp1251": _CYRILLIC,
    "cp1253": ("αοιετνσρκπμλςυηάίόέθδγωχήφύβξζώψ",),
    "cp1254": ("ıüşğçöİâîû",),
    "cp1255": ("יוהלאמרתבשנםחדקעפטגצןכסזךץףת",),
    "cp1256": ("اليمنروتبةعدسفهكقأحجشطصخضذثىغزئءإظؤآ،؟", "ايردنهومتبسشكزگفخقجعلپحآطصضغئثچظذژ،؟"),
    "cp1257": ("ėšųįžūčąę", "āīēšūņļžčģķ", "äõüöšž", "šžčūąęėįųāēīäõüöļņķģ"),
    "cp874": ("านรก่อเ้งมยลวดทัสตะิปีบคหแจพ์ูุืชขใไำโ็ผซธฉฐฟญถภศษณฝฮๆ",),
    "cp932": (_KANA,),
    "gb18030": (_SIMPLIFIED,),
    "big5": (_TRADITIONAL,),
    "cp949": (_HANGUL,),
    "euc_jp": (_KANA,),
    "koi8_r": (_RUSSIAN,),
    "iso8859_2": _CENTRAL,
    "latin-1": _WESTERN,
    "mac_roman": _WESTERN,
    "cp850": _WESTERN,
    "cp866": (_RUSSIAN,),
}
#: Of the encodings of East Asia: in which national standard, with which first bytes, the common characters are
_COMMON = {
    "cp932": ("euc_jp", 0xB0, 0xCF, 2965),
    "euc_jp": ("euc_jp", 0xB0, 0xCF, 2965),
    "gb18030": ("gb2312", 0xB0, 0xD7, 3755),
    "big5": ("big5", 0xA4, 0xC6, 5401),
    "cp949": ("euc_kr", 0xB0, 0xC8, 2350),
}
_SYMBOLS = "“”‘’„‚«»–—…•·€£¢¥§©®°·²³½¼¾µ±×†™\u00a0"  # in any language
_SYMBOL, _STRANGE = -5.0, -9.0  # log probabilities of each of them, and of any other character
_UNUSUAL = -1.5  # more for a letter where its language seldom has it
#: What each place in the list of encodings costs, and leaving the first twice as much more: where letters do not decide
_RARER = 0.5
_Seen = Counter[tuple[str, bool, bool]]


def likeliest_encoding(sample: bytes) -> str:
    """The encoding in which some bytes are likeliest; of those in which they read the same, the most usual.

    Example:
        >>> likeliest_encoding("Crème brûlée".encode("cp1252")), likeliest_encoding("Почему?".encode("koi8-r"))
        ('cp1252', 'koi8_r')
    """
    runs = Counter(re.findall(rb"[\x80-\xff]+", sample))
    news = sum(math.log2(1 + count) for count in runs.values()) / max(runs.total(), 1)  # what occurs again says less
    encodings: dict[str, str] = {}
    scores: dict[str, float] = {}
    for place, (encoding, languages) in enumerate(_LANGUAGES.items()):
        with contextlib.suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(encoding)().decode(sample)  # the last character may be cut
            seen, cost = _seen(text), _RARER * (place + 2 * (place > 0))
            score = news * max(_likelihood(seen, letters, encoding) for letters in languages) - cost
            encodings.setdefault(text, encoding)
            scores[text] = max(score, scores.get(text, -math.inf))
    return encodings[max(scores, key=scores.__getitem__)]


def _seen(text: str) -> _Seen:
    """How often each character beyond ASCII occurs, if next to a letter of ASCII, and if a capital inside a word."""
    result: _Seen = Counter()
    for (before, char, after), count in Counter(zip(f" {text}", text, f"{text[1:]} ", strict=False)).items():
        if char > "\x7f":
            beside = any(one.isascii() and one.isalpha() for one in (before, after))
            result[char, beside, before.islower() and char.isupper()] += count
    return result


def _likelihood(seen: _Seen, letters: str, encoding: str) -> float:
    """The log probability of characters beyond ASCII, if they are those of a language."""
    asian, latin = encoding in _COMMON, letters[0] < "\u0250" or letters[0] in _SYMBOLS
    probability, result = _probabilities(letters, 0.5 if asian else 0.9), 0.0
    for (char, beside, capital_inside), count in seen.items():
        low = probability.get(char, _others(char, encoding))
        if char.isalpha() and not asian:
            # Latin letters stand among those of ASCII, and those of other alphabets do not
            low = min(low, _STRANGE) if beside and not latin else low + _UNUSUAL * (latin and not beside)
            low += 2 * _UNUSUAL * capital_inside
        result += count * low
    return result


@cache
def _probabilities(letters: str, share: float) -> dict[str, float]:
    """The log probability of each letter of a language, in lower case and in upper case, and of symbols."""
    weights = [math.exp(-3.5 * rank / len(letters)) for rank in range(len(letters))]
    result = dict.fromkeys(_SYMBOLS, _SYMBOL)
    for letter, weight in zip(letters, weights, strict=True):
        low = math.log(share * weight / sum(weights))
        result |= {letter.upper(): low - 0.5, letter: low}
    return result


def _others(char: str, encoding: str) -> float:
    """The log probability of a character that is not among the frequent ones of a language."""
    if encoding not in _COMMON:
        return _STRANGE
    standard, first, last, count = _COMMON[encoding]
    code = char.encode(standard, "ignore")
    return math.log(0.4 / count) if len(code) == 2 and first <= code[0] <= last else _STRANGE * len(code or "..") / 1.5
