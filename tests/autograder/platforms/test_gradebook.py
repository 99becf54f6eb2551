"""Grades in the files that Canvas and Moodle import."""

from __future__ import annotations

import csv
import re
import zipfile
from dataclasses import replace
from io import BytesIO, StringIO

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.people import Identity
from autograder.platforms.gradebook import COLUMN, canvas, feedback_files, moodle, worksheet
from tests.autograder.platforms.reports import BROKEN, WRONG, line, problem

EXPORTED = """\
\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Quiz (7),Transpose (1234),Final Score
    Points Possible,,,,,10,100,(read only)
"Lovelace, Ada",11,s1,ada@x.edu,A,9,,50
"Babbage, Charles",12,s2,bob@x.edu,A,8,3,40
"""
COLUMNS = {"03_transpose": "Transpose (1234)"}


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(StringIO(text)))


def test_canvas_gets_its_own_table_back_with_the_points() -> None:
    before = rows(EXPORTED.removeprefix("\ufeff"))
    lines = [line("ada@x.edu"), line("babbagecharles", found=WRONG), problem("eve")]
    after = rows(canvas(lines, EXPORTED, COLUMNS))
    assert (after[2][6], after[3][6]) == ("15", "0")
    for row in (*before, *after):
        row[6] = ""
    assert after == before


def test_canvas_gets_semicolons_back_and_the_line_of_manual_posting() -> None:
    """A user's setting of Canvas, and the line that says which assignments are posted by hand."""
    exported = EXPORTED.replace(", ", "| ").replace(",", ";").replace("| ", ", ")
    first, rest = exported.split("\n", 1)
    exported = f"{first}\n;;;;;;Manual Posting;\n{rest}"
    after = canvas([line("11")], exported, COLUMNS, COLUMN)
    assert after == exported.removeprefix("\ufeff").replace(";A;9;;50", ";A;9;15;50").replace('"', "")


def test_a_judge_error_is_no_grade() -> None:
    assert rows(canvas([line("12", found=BROKEN)], EXPORTED, COLUMNS))[3][6] == "3"
    assert rows(moodle([line("12", found=BROKEN)])) == [["Email address"]]


@pytest.mark.parametrize(
    ("student", "columns", "words"),
    [
        ("nobody", COLUMNS, "not exactly one line that can be changed for nobody"),
        ("11", {"03_transpose": "Reduction"}, "no column called 'Reduction'"),
        ("11", {"03_transpose": "("}, "4 columns called '\\('"),
        ("11", {}, "which column"),
    ],
)
def test_what_canvas_does_not_know_is_told(student: str, columns: dict[str, str], words: str) -> None:
    exported = EXPORTED.replace("Final Score", "Final (x) Score").replace("Section", "Section (y)")
    with pytest.raises(ClassError, match=words):
        canvas([line(student)], exported, columns)


def test_what_is_no_gradebook_is_refused() -> None:
    with pytest.raises(ClassError, match="no column `Student`"):
        canvas([line("11")], "a,b\n1,2\n", COLUMNS)


def test_moodle_gets_a_column_a_lab() -> None:
    lines = [line("ada@x.edu"), line("ada@x.edu", "01_axpy", WRONG), line("=bob", "01_axpy"), problem("eve")]
    assert rows(moodle(lines)) == [
        ["Email address", "01_axpy", "03_transpose"],
        ["'=bob", "15", ""],
        ["ada@x.edu", "0", "15"],
    ]


def test_canvas_skips_who_was_dropped_and_scales() -> None:
    """15 of 100 points become 15 of 50; the dropped student is named."""
    skipped: list[str] = []
    exported = EXPORTED.replace(",10,100,", ",10,50,")
    after = rows(canvas([line("11"), line("99")], exported, COLUMNS, COLUMN, skipped))
    assert after[2][6] == "7.5" and after[3][6] == "3"
    assert skipped == ["Canvas's gradebook has not exactly one line that can be changed for 99"]
    assert rows(canvas([line("11")], exported, COLUMNS, 20))[2][6] == "3"


def test_canvas_keeps_a_student_excused() -> None:
    exported, skipped = EXPORTED.replace(",A,9,,50", ",A,9,EX,50"), list[str]()
    after = rows(canvas([line("11"), line("12")], exported, COLUMNS, None, skipped))
    assert (after[2][6], after[3][6]) == ("EX", "15") and skipped[0].endswith("can be changed for 11")


def test_an_id_of_canvas_beats_another_students_sis_id() -> None:
    exported = EXPORTED.replace(",s1,", ",12,")
    assert rows(canvas([line("12")], exported, COLUMNS))[3][6] == "15"


GROUP = replace(line("a + b"), members=(Identity("11", "Ada"), Identity("12", "Bob")))


def test_a_group_is_exported_as_its_members() -> None:
    after = rows(canvas([GROUP], EXPORTED, COLUMNS))
    assert (after[2][6], after[3][6]) == ("15", "15")
    assert rows(moodle([GROUP], "ID number"))[1:] == [["11", "15"], ["12", "15"]]


# What Moodle 4 writes for an assignment with "Offline grading worksheet"; importgradeslib.php reads it back.
WORKSHEET = """\
\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed",\
"Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 101","Same Name",ada@x.edu,"Submitted for grading - ",,20.00,Yes,"Friday, 20 November 2026, 10:00 PM",-,
"Participant 102","Same Name",bob@x.edu,"Submitted for grading - ",3.00,20.00,Yes,-,-,"Good, ""so"" far"
"Participant 103","Locked One",eve@x.edu,"Submitted for grading - ",5.00,20.00,No,-,-,
"""


def test_moodles_worksheet_comes_back_with_the_grades_and_nothing_else_changed() -> None:
    before = rows(WORKSHEET.removeprefix("\ufeff"))
    skipped: list[str] = []
    lines = [line("101"), line("BOB@x.edu", found=WRONG), line("103"), line("104"), line("101", "01_axpy", WRONG)]
    after = rows(worksheet(lines, WORKSHEET, "03_transpose", COLUMN, skipped))
    assert [row[4] for row in after] == ["Grade", "3", "0", "5.00"]  # 15 of 100 are 3 of 20
    assert [words.split()[-1] for words in skipped] == ["103", "104"]
    for row in (*before, *after):
        row[4] = ""
    assert after == before


# First lines of worksheets in languages that people set, with two students; the second one's grade is locked.
ABROAD = {
    "German": 'ID,"Vollständiger Name",E-Mail-Adresse,Status,Bewertung,Bestwertung,"Bewertung kann geändert werden",'
    '"Zuletzt geändert (Abgabe)","Zuletzt geändert (Bewertung)"\n'
    'Teilnehmer/in101,"Jörg Weiß",ada@x.edu,-,,"20,00",Ja,-,-\n'
    'Teilnehmer/in102,"Same Name",b@x.edu,-,,"20,00",Nein,-,-\n',
    "French": 'Identifiant,"Nom complet","Numéro d\'identification",Statut,Note,"Note maximale",'
    '"La note peut être modifiée","Dernière modification (note)"\n'
    'Participant101,"Jörg Weiß",7,Remis,,"20,00",Oui,-\nParticipant102,"Same Name",8,Remis,,"20,00",Non,-\n',
    "Spanish": 'Identificador,"Nombre completo","Dirección de correo",Estado,Calificación,"Calificación máxima",'
    '"La calificación puede ser cambiada","Última modificación (calificación)"\n'
    'Participante101,"Jörg Weiß",ada@x.edu,-,,"20,00",Sí,-\nParticipante102,"Same Name",b@x.edu,-,,"20,00",No,-\n',
    "Brazilian": 'Identificador,"Nome completo","Endereço de email","Número de identificação",Nota,"Nota máxima",'
    '"Nota pode ser alterada","Última modificação (nota)"\n'
    'Participante101,"Jörg Weiß",ada@x.edu,7,,"20,00",Sim,-\nParticipante102,"Same Name",b@x.edu,8,,"20,00",Não,-\n',
    "Japanese": "ID,フルネーム,メールアドレス,ステータス,評点,最大評点,評点変更可,最終更新日時 (評定)\n"
    "参加者101,Jörg Weiß,ada@x.edu,-,,20.00,Yes,-\n参加者102,Same Name,b@x.edu,-,,20.00,No,-\n",
}


@pytest.mark.parametrize("language", ABROAD)
def test_a_worksheet_is_in_the_language_of_the_person_who_downloads_it(language: str) -> None:
    exported, skipped = ABROAD[language], list[str]()
    before, after = (
        rows(exported),
        rows(worksheet([line("101"), line("102")], exported, "03_transpose", COLUMN, skipped)),
    )
    grades = {"German": "Bewertung", "French": "Note", "Spanish": "Calificación", "Brazilian": "Nota"}
    place = before[0].index(grades.get(language, "評点"))
    assert after[0] == before[0] and after[2] == before[2] and skipped[0].endswith(" 102")
    assert after[1] == [*before[1][:place], "3", *before[1][place + 1 :]]
    with zipfile.ZipFile(BytesIO(feedback_files({"101": "<p>"}, exported))) as archive:
        assert archive.namelist() == ["Jörg Weiß_101_assignfeedback_file_/feedback.html"]


@pytest.mark.parametrize("name", ["Identifier", "Grade", "Last modified (grade)"])
def test_a_worksheet_that_moodle_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(ClassError, match=re.escape(f"no column `{name}`")):
        worksheet([], ",".join({"Identifier", "Grade", "Last modified (grade)"} - {name}), "03_transpose")


def test_moodles_feedback_files_are_in_folders_that_moodle_knows() -> None:
    """importziplib.php splits a folder's name at underscores: name, number, "assignfeedback", "file"."""
    skipped: list[str] = []
    pages = {"101": "<p>ada", "bob@x.edu": "<p>bob", "nobody": "<p>"}
    with zipfile.ZipFile(BytesIO(feedback_files(pages, WORKSHEET, skipped))) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    parts = {tuple(name.split("/")[0].split("_", 4)[1:4]): page for name, page in found.items()}
    assert parts == {("101", "assignfeedback", "file"): "<p>ada", ("102", "assignfeedback", "file"): "<p>bob"}
    assert "nobody" in skipped[0]


def test_participants_numbers_are_no_email_addresses() -> None:
    with pytest.raises(ClassError, match="101 is a participant's number"):
        moodle([line("101")])
    assert rows(moodle([line("101")], "ID number"))[1] == ["101", "15"]


def test_points_without_a_column_of_points_cannot_be_scaled_to_it() -> None:
    with pytest.raises(ClassError, match="give --scale a number"):
        canvas([line("11")], EXPORTED.replace(",10,100,", ",10,,"), COLUMNS, COLUMN)
