"""The headings of Moodle's tables, which are in the language of the person who downloads them.

The words are those of Moodle's language packs (strings `recordid`, `maxgrade`, `gradecanbechanged` and
`lastmodifiedgrade` of `assign`, `gradenoun`, `email`, `fullname` and so on of `moodle`), and of some earlier versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

IDENTIFIER, EMAIL, ID_NUMBER, USERNAME = "Identifier", "Email address", "ID number", "Username"
GRADE, MOST, LOCK, GRADED_AT = "Grade", "Maximum grade", "Grade can be changed", "Last modified (grade)"
FULL_NAME, FIRST_NAME, LAST_NAME = "Full name", "First name", "Last name"
NO = frozenset({"no", "nein", "non", "não", "nee", "否", "いいえ"})  # in the column LOCK, in lower case

_TITLES = (
    IDENTIFIER, FULL_NAME, FIRST_NAME, LAST_NAME, EMAIL, ID_NUMBER, USERNAME, GRADE, MOST, LOCK, GRADED_AT,
)  # fmt: skip
# Per language, a word for each of _TITLES; "|" stands between words of several versions.
_LANGUAGES = {
    "English": "Identifier; Full name; First name; Last name|Surname; Email address; ID number; Username; Grade; "
    "Maximum grade; Grade can be changed; Last modified (grade)",
    "German": "ID; Vollständiger Name; Vorname; Nachname; E-Mail-Adresse; ID-Nummer; Anmeldename; Bewertung; "
    "Bestwertung|Bestbewertung; Bewertung kann geändert werden; Zuletzt geändert (Bewertung)",
    "French": "Identifiant; Nom complet; Prénom; Nom de famille|Nom; Adresse de courriel; Numéro d’identification; "
    "Nom d’utilisateur; Note; Note maximale; La note peut être modifiée; Dernière modification (note)",
    "Spanish": "Identificador; Nombre completo; Nombre; Apellido(s)|Apellidos; Dirección de correo|Dirección Email; "
    "Número de ID; Nombre de usuario; Calificación; Calificación máxima; La calificación puede ser cambiada; "
    "Última modificación (calificación)",
    "Japanese": "ID; フルネーム|名称; 名; 姓; メールアドレス; IDナンバ|IDナンバー; ユーザ名; 評点|評定; 最大評点; "
    "評点変更可; 最終更新日時 (評定)",
    "Portuguese": "Identificador|Número de identificação; Nome completo; Nome; Apelido; E-mail|Endereço de e-mail; "
    "Número de identificação (ID)|Código de identificação; Nome de utilizador; Avaliação|Nota; Nota máxima; "
    "A nota pode ser alterada.; Última atualização (avaliação)",
    "Brazilian": "Identificador; Nome completo; Nome; Sobrenome; Endereço de email|Endereço de e-mail; "
    "Número de identificação; Identificação de usuário; Nota; Nota máxima; Nota pode ser alterada; "
    "Última modificação (nota)",
    "Dutch": "Identificatie; Volledige naam; Voornaam; Achternaam; E-mailadres; Nummer (ID); Gebruikersnaam; "
    "Cijfer|Beoordeling; Maximaal cijfer; Het cijfer kan gewijzigd worden; Laatst gewijzigd (beoordeling)",
    "Chinese": "标识符|识别码; 全名; 名; 姓|姓氏; 电子邮件地址|Email地址; 学号; 用户名; 成绩; 最高分|最高成绩; "
    "允许更改成绩; 上次修改（评分）|最后修改（教师）",
}


def _plain(title: str) -> str:
    return title.strip().replace("'", "’").casefold()


def _words(text: str) -> Mapping[str, str]:
    """The English title of each word of a language."""
    pairs = zip(_TITLES, text.split("; "), strict=True)
    return {_plain(word): title for title, words in reversed(list(pairs)) for word in words.split("|")}


_KNOWN = [_words(text) for text in _LANGUAGES.values()]


def in_english(heading: Sequence[str]) -> list[str]:
    """A heading of Moodle's grading worksheet or of its list of participants with its titles in English; any other
    heading as it is. A title may be of several languages: the one that knows most of the titles is tried first."""
    for words in sorted(_KNOWN, key=lambda words: -sum(_plain(title) in words for title in heading)):
        titles = [words.get(_plain(title), title) for title in heading]
        worksheet = IDENTIFIER in titles and GRADED_AT in titles
        participants = EMAIL in titles and {FULL_NAME, FIRST_NAME, LAST_NAME} & set(titles)
        if worksheet or participants:
            return titles
    return list(heading)
