"""Documents as people have them, each a few hundred bytes, written by hand."""

import json
import zipfile
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
OPF = (
    '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i">'
    '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="i">1</dc:identifier>'
    "<dc:title>Seals</dc:title><dc:creator>Ann Lee</dc:creator></metadata>"
    '<manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="a"/></spine></package>'
)
OFFICE = "http://schemas.openxmlformats.org"
TYPES = (
    f'<Types xmlns="{OFFICE}/package/2006/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/></Types>'
)


def rels(kind, target):
    return (
        f'<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{OFFICE}/officeDocument/2006/relationships/{kind}" Target="{target}"/></Relationships>'
    )


def zipped(path, parts):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)


def docx(path, text):
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    document = f'<w:document xmlns:w="{OFFICE}/wordprocessingml/2006/main">{body}</w:document>'
    zipped(path, {"[Content_Types].xml": TYPES, "_rels/.rels": rels("officeDocument", "word/document.xml"),
                    "word/document.xml": document})  # fmt: skip


def pptx(path, text):
    drawing = f'xmlns:a="{OFFICE}/drawingml/2006/main" xmlns:p="{OFFICE}/presentationml/2006/main"'
    words = f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
    slide = f"<p:sld {drawing}><p:cSld><p:spTree><p:sp>{words}</p:sp></p:spTree></p:cSld></p:sld>"
    show = (
        f'<p:presentation {drawing} xmlns:r="{OFFICE}/officeDocument/2006/relationships"><p:sldIdLst><p:sldId id="256" '
    )
    show += 'r:id="rId1"/></p:sldIdLst></p:presentation>'
    zipped(path, {"[Content_Types].xml": TYPES, "_rels/.rels": rels("officeDocument", "ppt/presentation.xml"),
                    "ppt/presentation.xml": show, "ppt/_rels/presentation.xml.rels": rels("slide", "slides/slide1.xml"),
                    "ppt/slides/slide1.xml": slide})  # fmt: skip


def xlsx(path, text):
    main = f"{OFFICE}/spreadsheetml/2006/main"
    book = f'<workbook xmlns="{main}" xmlns:r="{OFFICE}/officeDocument/2006/relationships"><sheets><sheet name="ports" '
    book += 'sheetId="1" r:id="rId1"/></sheets></workbook>'
    sheet = f'<worksheet xmlns="{main}"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c></row>'
    zipped(path, {"[Content_Types].xml": TYPES, "_rels/.rels": rels("officeDocument", "xl/workbook.xml"),
                    "xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": rels("worksheet", "worksheets/sheet1.xml"),
                    "xl/worksheets/sheet1.xml": sheet + "</sheetData></worksheet>"})  # fmt: skip


def odt(path, text):
    names = (
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:'
    )
    names += 'xmlns:text:1.0"'
    content = f"<office:document-content {names}><office:body><office:text><text:p>{text}</text:p></office:text>"
    zipped(path, {"mimetype": "application/vnd.oasis.opendocument.text",
                    "content.xml": content + "</office:body></office:document-content>"})  # fmt: skip


def epub(path, text):
    page = f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body><p>{text}</p></body></html>'
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, "book.opf": OPF, "a.xhtml": page}
    zipped(path, parts)


def pdf_of(*texts, encrypted=False):
    """A PDF of one line a page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(texts)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(texts)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for i, text in enumerate(texts):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        fonts = "/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{fonts}/Contents {5 + 2 * i} 0 R>>")
        objects.append(f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream")
    content, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(content))
        content += f"{number} 0 obj{body}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    start, locked = len(content), ""
    content += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    if encrypted:
        key = f"<{'41' * 32}>"
        locked = f"/Encrypt<</Filter/Standard/V 1/R 2/O{key}/U{key}/P -4>>/ID[<{'41' * 16}><{'41' * 16}>]"
    return (content + f"trailer<</Size {len(objects) + 1}/Root 1 0 R{locked}>>\nstartxref\n{start}\n%%EOF").encode()


def mail(subject, body, encoding="iso-8859-1"):
    head = f"From: ann@example.org\nTo: bob@example.org\nSubject: {subject}\nDate: Mon, 4 Mar 2024 10:00:00 +0100\n"
    return f"{head}MIME-Version: 1.0\nContent-Type: text/plain; charset={encoding}\n\n{body}\n".encode(encoding)


def write_folder(folder):
    """Thirty-seven files: twenty-four to be read in whole or in part, and thirteen of which nothing can be indexed."""

    def put(name, content):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    docx(folder / "minutes.docx", "The harbour board met on Monday")
    pptx(folder / "talk.pptx", "Lighthouses of the northern coast")
    xlsx(folder / "ports.xlsx", "Brest has the largest tidal range")
    odt(folder / "letter.odt", "Dear aunt, the orchard is in bloom")
    epub(folder / "book.epub", "Grey seals give birth in autumn")
    put("old.rtf", r"{\rtf1\ansi The railway to the mine was closed in 1931.}")
    put("guide.rst", "Knots\n=====\n\nA bowline makes a loop that *holds*.\n")
    put("plan.org", "* Garden\nPlant the beans in May.\n")
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# Rainfall by month\n"]}]
    put("rain.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    put("report.pdf", pdf_of("Salmon return to the river", "", "Herring spawn in the bay"))
    put("invoice.eml", mail("Rechnung", "Größere Mengen Käse wurden geliefert."))
    front = "---\ntitle: On bread\nauthor: Ann Lee\ndate: 2024-03-01\ntags: [food, wheat]\n---\n"
    put("bread.md", front + "# Bread\n\nSourdough needs <title> and a *night* to rise.\n\nBake it hot.\n")
    put("glass.md", "Glass is made from sand.<!-- not closed\n\nIt is blown while hot.\n")
    put("rus.html", '<meta charset="windows-1251"><title>Мир</title><p>Поезд идёт на север.'.encode("cp1251"))
    put("jap.html", '<meta charset="Shift_JIS"><p>東京の天気は晴れです。'.encode("shift_jis"))
    put("fra.html", "<p>Le café était fermé à midi, et l'été à Nîmes fut très sec.".encode("cp1252"))
    meta = "<meta name=author content='Bo Ek'><meta name=keywords content='ice, snow'>"
    glide = "<p>Skates <b>glide<nav>Home<p>on ice that is <a href='x'>thick<script>x()</script> enough"
    put("open.html", meta + glide)
    put("shell.txt", b"\xff\xfe" + "Backup of the server was done.\r\n".encode("utf-16-le"))
    put("notes/wood.txt", "Wood\n\nOak is hard. It is used for ships.\n\nPine is soft.\n")
    wrapped = (
        "Copper conducts heat and electricity so\nwell that wires and the bottoms of good\npans are made of it, in "
    )
    put("notes/wrapped.txt", wrapped + "spite of its\nprice, which has risen for some years.\n")
    put("list.txt", "a cat sat on the wall\na dog ran along the pier\n\N{SQUID}\n")
    put("faq.csv", "question;answer;price\nWhen does it open?;at nine;1.10\nWhere is it?;by the church;2\n")
    put("rows.jsonl", '{"text": "Magnets attract iron filings", "who": {"name": "Ann"}}\n{"text": ""}\n')
    days = {"text": ["Eclipses come in pairs"], "day": [date(2024, 4, 8)], "cost": [Decimal("1.50")]}
    days["tags"] = [["sky", "sun"]]
    pq.write_table(pa.table({**days, "image": [b"x"]}), folder / "sky.parquet")
    # of what follows, nothing can be indexed
    put("scan.pdf", pdf_of("", ""))
    put("locked.pdf", pdf_of("Secret", encrypted=True))
    put("locked.docx", b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"))
    put("broken.pdf", b"%PDF-1.4\n")
    put("broken.docx", b"nonsense")
    put("broken.jsonl", '{"text": \n')
    put("empty.md", "")
    put("blank.html", "<title></title><p>")
    put("photo.jpg", b"\xff\xd8")
    put("tune.mp3", b"ID3")
    put(".hidden.md", "Hidden.")
    put(".git/config", "x")
    (folder / "gone.md").symlink_to(folder / "nowhere")
    (folder / "linked").symlink_to(folder / "notes")
