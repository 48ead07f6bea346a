"""Lexemes: what full-text search indexes of a text, and looks up of a query. Both come from the text alone."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from contrastive_st.search.values import digests

# Vowel signs and accents, which Python's \w leaves out
_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0e3a\u0e40-\u0eff"
    "\u0f71-\u0f84\u1000-\u109f\u1780-\u17d3"
)
# A word, or the parts of a code such as AB-1234, --no-cache, /etc/hosts or C++ with what joins them
_TOKEN_OF = r"[-./\\~@#$%+]{{0,3}}{word}+(?:[-./\\:@+#=~&%$',]+{word}+)*[+#]*"
_ASCII, _ANY = (re.compile(_TOKEN_OF.format(word=word)) for word in (r"\w", rf"[\w{_MARKS}]"))
_PART = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_DIGIT = re.compile(r"\d")
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")  # one that is not inside a number
_IS_CODE = re.compile(rf"[^\w{_MARKS}']|_")
_PIECE = re.compile(r"[^/\\:=@]+")  # of a path or an address
# Scripts without blanks between words, and Hangul, where particles are written together with the word
_HAN = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0003ffff"
_DENSE = re.compile(rf"[{_HAN}]+|[\u0e00-\u0e7f]+|[\u0e80-\u0eff]+|[\u1000-\u109f]+|[\u1780-\u17ff]+")
_IS_HAN = re.compile(f"[{_HAN}]")
# Hyphens and apostrophes of other keyboards; characters without width
_SAME = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u02bc", "'")
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff")
)
_OTHER = re.compile(f"[{''.join(map(chr, _SAME))}]")
_COMPOUNDING = {"danish", "dutch", "estonian", "finnish", "german", "hungarian", "norwegian", "swedish"}
_GRAM = 5  # letters of the parts by which a word in a compound is found
_COMPOUND = 10  # letters of a word that may be a compound
_stemmers = threading.local()  # a stemmer of PyStemmer must not be used by two threads at a time


def tokens_of(text: str) -> list[str]:
    """The words and codes of a text, in lower case and NFKC.

    Example:
        >>> tokens_of("“Pass --no-cache to AB-1234, or don’t.”")
        ['pass', '--no-cache', 'to', 'ab-1234', 'or', "don't"]
    """
    folded = _fold(text)
    return (_ASCII if folded.isascii() else _ANY).findall(folded)


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text)
    if _OTHER.search(text):
        text = text.translate(_SAME)
    return unicodedata.normalize("NFKC", text.casefold().replace("i\u0307", "i"))  # of a capital I with a dot


def lexemes_of(text: str, language: str = "simple", *, query: bool = False) -> list[str]:
    """The lexemes of a text, one for each occurrence.

    A word is stemmed. A code such as `AB-1234`, a path or a flag is a lexeme as written, and so are its parts. Chinese,
    Japanese, Korean, Thai, Lao, Khmer and Burmese are cut into pairs of characters. In languages with compounds, a long
    word also has a lexeme for each five of its letters.

    Args:
        text: a document or a query.
        language: the language of the stemmer, such as `german`; `simple` does not stem.
        query: the text is a query, in which also short words have their five letters, to be found in compounds.

    Returns:
        The lexemes; those of five letters of a word begin with a NUL character.

    Example:
        >>> lexemes_of("Caching, AB-1234", "english"), lexemes_of("東京都")
        (['cach', 'ab', '1234', 'ab-1234'], ['東', '京', '都', '東京', '京都'])
    """
    return [lexeme for token in tokens_of(text) for lexeme in _expand(token, language, query)]


@lru_cache(maxsize=1 << 12)
def query_keys(text: str, language: str) -> tuple[int, ...]:
    """The keys of the distinct lexemes of a query, which are hashes of 63 bits."""
    return tuple(_hashes(list(dict.fromkeys(lexemes_of(text, language, query=True)))).tolist())


def document_keys(
    texts: Iterable[str], language: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The sorted keys of all lexemes of documents; which of them each document has; and how many each has.

    Each distinct token is expanded and stemmed once.
    """
    numbers, codes, sizes = dict[str, int](), list[int](), list[int]()
    for text in texts:
        tokens = tokens_of(text)
        codes += [numbers.setdefault(token, len(numbers)) for token in tokens]
        sizes.append(len(tokens))
    lexemes, counts = list[str](), list[int]()
    for token in numbers:
        of_token = _expand(token, language, False)
        lexemes += of_token
        counts.append(len(of_token))
    many, tokens_in_order = np.array(counts, np.int64), np.array(codes, np.int64)
    keys, number = np.unique(_hashes(lexemes), return_inverse=True)
    ends = np.append(0, np.cumsum(many[tokens_in_order]))[np.append(0, np.cumsum(sizes, dtype=np.int64))]
    return keys, number[ranges((np.cumsum(many) - many)[tokens_in_order], many[tokens_in_order])], np.diff(ends)


def _hashes(lexemes: list[str]) -> NDArray[np.int64]:
    return (digests(lexeme.encode() for lexeme in lexemes).view(">u8") >> 1).astype(np.int64)


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers `start, start + 1, ...` of each range, one range after the other.

    Example:
        >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    shift = starts - (np.cumsum(counts) - counts)
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(shift, counts), np.int64)


def _expand(token: str, language: str, query: bool) -> list[str]:
    if token.isascii() and token.isalpha():
        return _word(token, language, query)
    result: list[str] = []
    for code in _COMMA.split(token):
        parts = _PART.findall(code)
        for part in parts:
            end = 0
            for run in () if part.isascii() else _DENSE.finditer(part):
                result += _word(part[end : run.start()], language, query)
                result += _pairs(run[0], query)
                end = run.end()
            result += _word(part[end:], language, query)
        if _IS_CODE.search(code) and not _DENSE.search(code):
            core = code.lstrip("-./\\~@#$%+")
            result += sorted({code, core, *_PIECE.findall(core)} - set(parts))
    return result


def _word(word: str, language: str, query: bool) -> list[str]:
    if not word or language == "simple" or _DIGIT.search(word):
        return [word] if word else []
    result = [_stemmer(language)(word)]
    if language in _COMPOUNDING and len(word) >= (_GRAM if query else _COMPOUND):
        result += ("\0" + word[start : start + _GRAM] for start in range(len(word) - _GRAM + 1))
    return result


def _pairs(run: str, query: bool) -> Iterator[str]:
    """Pairs of characters; and single Chinese or Japanese characters, which a query has only if it is no longer."""
    if len(run) == 1 or (not query and _IS_HAN.match(run)):
        yield from run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


def _stemmer(language: str) -> Callable[[str], str]:
    """What stems a word."""
    import Stemmer

    if (stem := getattr(_stemmers, language, None)) is None:
        stem = Stemmer.Stemmer(language).stemWord
        setattr(_stemmers, language, stem)
    return stem  # type: ignore[no-any-return]


UNKNOWN_LANGUAGE = "simple"  # of full text: words as they are
_TEXTS, _CHARACTERS = 1000, 1000  # that are looked at, and of each
#: Frequent words without much meaning, which few other languages have
_FREQUENT = {
    language: frozenset(words.split())
    for language, words in {
        "arabic": "في من على إلى أن عن مع هذا هذه التي الذي كان كانت ما لا هو هي أو ثم قد بعد بين كل",
        "armenian": "և է են որ մեջ համար այս ու իր նա են էր հետ մի այդ ինչ բայց կամ նրա ոչ եւ",
        "basque": "eta da ez bat dira zen du ere izan baina dute hau egin den zuen hori edo bere batean duen",
        "catalan": "de la el que i a les en els un una per del amb és al no dels s'ha com més va són però",
        "czech": "a v se na je že s z do o i to k ve pro za by jsem ale jako jsou od po podle který které byl jeho",
        "danish": "og i at det en er til på af den for som ikke med de der et han var jeg har kan men af så vi fra",
        "dutch": "de het een van en in is dat op te met voor niet zijn aan er om die ook als bij ze hij door naar",
        "english": "the of and to in a is that for it was on as with be by are this from at his he not or have an",
        "estonian": "ja on ei et see ta oli ka kui mis oma aga ning siis seda või ma mida selle nii kes veel pole",
        "finnish": "ja on ei se että oli hän mutta ovat kun myös ole joka sen niin tai mitä jos olen minä kuin hänen",
        "french": "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont",
        "german": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an war",
        "greek": "και το να του της η ο τησ τα με για που την από τον είναι των σε στο οι δεν τη στην θα στη τουσ",
        "hindi": "के में की है और से का को पर कि यह ने हैं था भी एक इस नहीं तो जो हो कर लिए थे",
        "hungarian": "a az és hogy nem is egy ez volt meg csak de ha már mint vagy el van azt még kell lehet ki",
        "indonesian": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada oleh kami",
        "irish": "an na agus ar is le go do a bhí i sé ag as sin mar seo ach nó tá raibh bhí chun",
        "italian": "di e il la che in a per un è del non una sono con i si da come le al ha più della dei gli nel ma",
        "lithuanian": "ir kad į iš tai su yra ne buvo o jo kaip bet apie jis po už ar savo tik nuo būti prie",
        "nepali": "र को मा छ पनि यो लागि हो गर्न भने एक थियो गरेको छन् त्यो भएको गर्ने यस",
        "norwegian": "og i det er på en til som å av for at med ikke de den har jeg et men om han var vi fra så kan",
        "persian": "و در به از که این را با است برای آن یک خود تا بر هم نیز می شد شده بود های",
        "polish": "w i na z do nie że się jest to o jak za od po co ale dla przez są tym był być oraz które jego",
        "portuguese": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele",
        "romanian": "de și în a la cu pe nu că o din care este un pentru se mai sunt ce prin fost dar sau să ca al",
        "russian": "и в не на что с по как из за от для это он но был к его у так то все же бы она",
        "serbian": "i u je da se na za su od sa ne kao to ili ali što bi koji iz и у је да се на за су од са не као",
        "spanish": "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha",
        "swedish": "och i att det som en på är av för med den till inte har de ett om jag var men från vi så kan när",
        "tamil": "ஒரு என்று மற்றும் இந்த என அது உள்ள இது அவர் என்ன நான் வேண்டும் அந்த ஆனால் போது இருந்து",
        "turkish": "ve bir bu da de için ile çok o ne gibi daha olarak olan var ama kadar sonra ben mi değil her ya",
        "yiddish": "און אין די דער פון צו איז אַז מיט דאָס אויף ניט האָט זיך ער פֿון אַ",
    }.items()
}
LANGUAGES = tuple(sorted({UNKNOWN_LANGUAGE, *_FREQUENT}))


def language_of(texts: Iterable[str]) -> str:
    """The language of texts, as PyStemmer names it, or `simple` if it is not clear.

    It is the language of which the first thousand texts have the most frequent words.

    Example:
        >>> language_of(["Die Häuser stehen am Rand des Waldes und sind sehr alt."]), language_of(["annual budget"])
        ('german', 'simple')
    """
    counts = Counter(token for text in islice(texts, _TEXTS) for token in tokens_of(text[:_CHARACTERS]))
    words = {token: count for token, count in counts.items() if token[0].isalpha()}
    total = max(sum(words.values()), 1)
    shares = sorted(
        ((sum(count for token, count in words.items() if token in frequent) / total, language)
         for language, frequent in _FREQUENT.items()), reverse=True,
    )  # fmt: skip
    (share, best), (second, _) = shares[:2]
    return best if share > 0.2 and share > 1.25 * second else UNKNOWN_LANGUAGE
