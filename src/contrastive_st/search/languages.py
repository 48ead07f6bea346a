"""The language of texts, by their frequent words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from contrastive_st.search.lexemes import tokens_of

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
        ((sum(count for token, count in words.items() if token in known) / total, language)
         for language, known in _FREQUENT.items()), reverse=True,
    )  # fmt: skip
    (share, best), (second, _) = shares[:2]
    return best if share > 0.2 and share > 1.25 * second else UNKNOWN_LANGUAGE
