"""The lists of students that platforms export."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.people import Person
from autograder.classroom.roster import read_roster

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Axpy (7)
    Points Possible,,,,,10
"Lovelace, Ada",11,s1,ada@x.edu,A,
"Student, Test",99,,,A,
"""
MOODLE = """Identifier,"Full name","ID number","Email address",Grade,"Last modified (grade)"
"Participant 101","Same Name",7,ada@x.edu,,-
"Teilnehmer/in 102","Same Name",8,bob@x.edu,,-
"""
GERMAN = """ID,"Vollständiger Name",E-Mail-Adresse,Bewertung,"Zuletzt geändert (Bewertung)"
Teilnehmer/in101,"Jörg Weiß",ada@x.edu,,-
"""
FRENCH = "Prénom;Nom de famille;Numéro d’identification;Adresse de courriel\nHélène;Côté;7;h@x.edu\n"
JAPANESE = "ID,フルネーム,評点,最終更新日時 (評定)\n参加者101,山田 花子,,-\n"
SPANISH = 'Nombre,Apellido(s),"Dirección de correo"\nÁngela,Núñez,a@x.edu\n'
BRAZILIAN = 'Nome,Sobrenome,"Número de identificação","Endereço de e-mail"\nJoão,Gonçalves,7,j@x.edu\n'
BLIND = 'Identifier,Status,Grade,"Last modified (grade)"\n"Participant 101",,,-\n'
PARTICIPANTS = '"First name","Last name","Email address"\nAda,Lovelace,ada@x.edu\n'
GRADESCOPE = "First Name,Last Name,SID,Email,Role\nAda,L,7,ada@x.edu,Student\nT,A,,ta@x.edu,TA\n"
GITHUB = '"identifier","github_username","github_id","name"\n"ada@x.edu","ada","1",""\n"bob@x.edu","","",""\n'
GITHUB_GRADES = "assignment_name,github_username,roster_identifier,student_repository_name\nGPU,ada,ada@x.edu,gpu-ada\n"
NBGRADER = "id,first_name,last_name,email\nada,Ada,L,ada@x.edu\n"
PLAIN = "student;name\ns1 ;Ada\ns1\u200b;Eve\n"


@pytest.mark.parametrize(
    ("text", "people"),
    [
        (CANVAS, [Person("11", "Lovelace, Ada", frozenset({"s1", "ada@x.edu"}))]),
        (
            MOODLE,
            [
                Person("ada@x.edu", "Same Name", frozenset({"101", "7"})),
                Person("bob@x.edu", "Same Name", frozenset({"102", "8"})),
            ],
        ),
        (GERMAN, [Person("ada@x.edu", "Jörg Weiß", frozenset({"101"}))]),
        (FRENCH, [Person("h@x.edu", "Hélène Côté", frozenset({"7"}))]),
        (SPANISH, [Person("a@x.edu", "Ángela Núñez")]),
        (BRAZILIAN, [Person("j@x.edu", "João Gonçalves", frozenset({"7"}))]),
        (JAPANESE, [Person("101", "山田 花子", frozenset({"101"}))]),
        (BLIND, [Person("101", "", frozenset({"101"}))]),
        (PARTICIPANTS, [Person("ada@x.edu", "Ada Lovelace")]),
        (GRADESCOPE, [Person("ada@x.edu", "Ada L", frozenset({"7"}))]),
        (GITHUB, [Person("ada", "", frozenset({"ada@x.edu"})), Person("bob@x.edu", "", frozenset({"bob@x.edu"}))]),
        (GITHUB_GRADES, [Person("ada", "", frozenset({"ada@x.edu", "gpu-ada"}))]),
        (NBGRADER, [Person("ada", "Ada L")]),
        (PLAIN, [Person("s1", "Ada"), Person("s1\\u200b", "Eve")]),
    ],
)
def test_a_platforms_list_is_read(text: str, people: list[Person], tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    assert read_roster(path) == people


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column that names students"),
        ("name\nAda\n", "no column that names students"),
        ("student\nada\nada\n", "line 3: ada is there twice"),
        ("student,name\n,Ada\n", "line 2: there is no student"),
    ],
)
def test_a_wrong_list_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(text)
    with pytest.raises(ClassError, match=words):
        read_roster(path)
    with pytest.raises(ClassError, match="cannot be read"):
        read_roster(tmp_path / "nowhere.csv")
