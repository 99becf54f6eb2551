"""Each platform's download, against who handed in what: no file is lost, none is another student's."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.intake import Intake, read_class
from autograder.classroom.reader import Confined
from corpus.hand_ins import LAB, OTHER, TREES, Tree, gradescope, notebook, starter, work, zipped


def first_line(content: bytes) -> str:
    return content.decode().splitlines()[0].strip("# ")


def check(tree: Tree, found: Intake) -> None:
    counted = {(h.student, h.lab): first_line(h.content) for h in found.handed_in if h.content and not h.problem}
    assert counted == {key: text.strip("# ") for key, text in tree.counts.items()}
    unread = {fate.path: fate.words for fate in found.fates if not fate.read}
    assert {path: words in unread.get(path, "") for path, words in tree.unread.items()} == dict.fromkeys(
        tree.unread, True
    )
    assert set(unread) == set(tree.unread)
    called = {one.student: one.called for one in found.handed_in}
    assert {name: called[name] for name in tree.names} == tree.names
    # Everybody has a row, also who handed in nothing that can be read.
    assert {fate.student for fate in found.fates} - {""} <= set(called)


@pytest.mark.parametrize("name", TREES)
def test_every_file_of_a_download_is_accounted_for(name: str, tmp_path: Path) -> None:
    tree = TREES[name]()
    check(tree, read_class(tree.write(tmp_path / "class"), tree.lab))


@pytest.mark.parametrize("name", TREES)
def test_the_same_in_an_archive(name: str, tmp_path: Path) -> None:
    tree = TREES[name]()
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        for path, content in tree.files.items():
            if "\\" in path:  # is a separator in archives
                pytest.skip("its names cannot be in an archive")
            archive.writestr(path, content)
    check(tree, read_class(tmp_path / "class.zip", tree.lab))


@pytest.mark.processes
def test_a_confined_process_reads_the_same_and_a_bomb_costs_its_student_only(tmp_path: Path) -> None:
    tree = TREES["plain"]()
    root = tree.write(tmp_path / "class")
    spaces = notebook("x" + " " * (15 << 20))
    (root / "s8.zip").write_bytes(zipped({f"{number}.ipynb": spaces for number in range(65)}))
    with Confined() as reader:
        found = read_class(root, tree.lab, reader)
    (bomb,) = [one for one in found.handed_in if one.student == "s8"]
    assert "hand in submission.py alone" in bomb.problem and not bomb.content
    rest = [one for one in found.handed_in if one.student != "s8"]
    check(tree, Intake(rest, [fate for fate in found.fates if fate.student != "s8"]))


def test_times_are_those_of_the_platform(tmp_path: Path) -> None:
    found = read_class(gradescope().write(tmp_path / "a"), LAB)
    assert [one.at for one in found.handed_in] == ["2026-11-20T22:58:59+00:00", "2026-11-21T07:00:00+00:00"]
    assert [member.id for member in found.handed_in[1].members] == ["bob@x.edu", "eve@x.edu"]
    (tmp_path / "b" / "ada" / LAB).mkdir(parents=True)
    (tmp_path / "b" / "ada" / LAB / "submission.py").write_text("# x")
    (tmp_path / "b" / "ada" / LAB / "timestamp.txt").write_text("2020-01-01 00:00:00 UTC")  # a student's own
    assert read_class(tmp_path / "b").handed_in[0].at == ""
    tree = TREES["nbgrader"]()
    assert read_class(tree.write(tmp_path / "c")).handed_in[0].at == "2026-11-20T22:00:00+00:00"


def test_names_that_look_alike_are_named(tmp_path: Path) -> None:
    found = read_class(TREES["plain"]().write(tmp_path / "class"), LAB)
    assert any("s1 and s1\\u200b and s1\\x20 look alike" in words for words in found.warnings)


@pytest.mark.parametrize(
    "metadata",
    [
        b"submission_12:\n  :submitters:\n  - :name: Eve\n    :email: eve@x.edu\n",  # one folder is not in it
        b"ada:\n  :submitters:\n  - :name: Eve\nbob:\n  :submitters:\n  - :name: Ada\n",
        b"submission_11: &a\n  :submitters: []\nsubmission_12: *a\n",
        b"- 1\n",
        b"{" * 100_000,
    ],
)
def test_metadata_that_are_not_the_exports_give_nobody_anything(metadata: bytes, tmp_path: Path) -> None:
    for name in ("submission_11", "submission_12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "submission.py").write_bytes(work(name))
    (tmp_path / "submission_metadata.yml").write_bytes(metadata)
    try:
        found = read_class(tmp_path, LAB)
    except ClassError as error:
        assert "Export the submissions again" in str(error)
        return
    assert [one.student for one in found.handed_in] == ["submission_11", "submission_12"]
    (fate,) = [fate for fate in found.fates if fate.path == "submission_metadata.yml"]
    assert "not read" in fate.words and not fate.read


def test_a_student_of_two_platforms_in_one_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "11").mkdir()
    (tmp_path / "11" / "submission.py").write_text("# folder")
    (tmp_path / "ada_11_22_submission.py").write_text("# canvas")
    (one,) = read_class(tmp_path, LAB).handed_in
    assert "two kinds of names" in one.problem and not one.content


def test_a_clone_without_work_and_a_clone_in_an_archive(tmp_path: Path) -> None:
    tree = TREES["github"]()
    root = tree.write(tmp_path / "class")
    files = {path.removeprefix("gpu-submissions/"): content for path, content in tree.files.items()}
    ada = {path: content for path, content in files.items() if path.startswith("gpu-ada/")}
    (root / "gpu-submissions" / "gpu-zip.zip").write_bytes(zipped(ada))
    for name, content in ada.items():
        place = root / "gpu-submissions" / name.replace("gpu-ada", "gpu-idle")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if "submission_cuda" not in name else starter(place.parent.name, place.name))
    whole = read_class(root)
    found = {(one.student, one.lab): one for one in whole.handed_in}
    inside = [fate.path for fate in whole.fates if fate.student == "gpu-zip"]
    assert inside and all(path.startswith("gpu-submissions/gpu-zip.zip/gpu-ada") for path in inside)
    assert len(set(inside)) == len(inside)
    assert found["idle", ""].problem == "The repository of idle has unchanged starters only."
    (zipped_one,) = [one for one in found.values() if one.student == "gpu-zip"]
    assert (zipped_one.lab, zipped_one.content) == (LAB, b"# ada's\n")
    asked = {one.student: one for one in read_class(root, LAB).handed_in}
    assert "unchanged starter" in asked["idle"].note and not asked["ada"].note


def test_metadata_in_the_folder_of_the_only_student_give_nobody_their_work(tmp_path: Path) -> None:
    place = tmp_path / "class" / "eve" / "submission_11"
    place.mkdir(parents=True)
    (place / "submission.py").write_text("# eve")
    forged = "submission_11:\n  :submitters:\n  - :name: Ada\n    :email: ada@x.edu\n"
    (place.parent / "submission_metadata.yml").write_text(forged)
    assert [one.student for one in read_class(tmp_path, LAB).handed_in] == ["eve"]


@pytest.mark.parametrize(
    "files",
    [
        ("submissions/ada_1_2_submission.py", "submissions/bob_2_3_submission.py"),
        ("week/Ada L_1_assignsubmission_file_submission.py", "week/Bob_2_assignsubmission_file_submission.py"),
        ("week/1.zip", "week/2.zip"),
        ("all/week/1.zip", "all/week/2/submission.py"),
        (f"{LAB}/week/1/submission.py", f"{LAB}/week/2/submission.py"),
    ],
    ids=str,
)
def test_a_folder_around_a_class_is_no_student(files: tuple[str, ...], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        content = work(name)
        (tmp_path / name).write_bytes(zipped({"submission.py": content}) if name.endswith(".zip") else content)
    found = read_class(tmp_path, LAB)
    assert [one.student for one in found.handed_in] == ["1", "2"] and found.all_read


def test_what_tools_leave_behind_has_a_line(tmp_path: Path) -> None:
    files = ("ada/submission.py", "ada/.git/config", "ada/.DS_Store", "bob/.ipynb_checkpoints/submission.ipynb")
    for name in (*files, "venv/submission.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(work(name))
    found = read_class(tmp_path, LAB)
    assert {one.student for one in found.handed_in if one.content} == {"ada", "venv"}
    left = {fate.path: fate.read for fate in found.fates if "left by" in fate.words}
    assert left == {"ada/.DS_Store": True, "ada/.git": True, "bob/.ipynb_checkpoints": False}
    assert not found.all_read


def test_exports_beside_other_files(tmp_path: Path) -> None:
    for name in ("gradescope", "github"):
        TREES[name]().write(tmp_path / name)
        (tmp_path / name / "grades.csv").write_text("student\n")
        found = {one.student for one in read_class(tmp_path / name, LAB).handed_in}
        assert found == {student for student, _ in TREES[name]().counts}
    # A student's own folder of such a name, beside another student's, is a student's
    for name in ("ada/submission.py", "eve-submissions/ada/submission.py", "eve-submissions/bob/submission.py"):
        (tmp_path / "plain" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "plain" / name).write_bytes(work(name))
    assert [one.student for one in read_class(tmp_path / "plain", LAB).handed_in] == ["ada", "eve-submissions"]


@pytest.mark.parametrize("name", TREES)
def test_no_file_is_without_a_line(name: str, tmp_path: Path) -> None:
    """Files of the course in a clone are counted in one line; each other file, and each archive, has its own."""
    tree = TREES[name]()
    root = tree.write(tmp_path / "class")
    front = "" if name not in ("gradescope", "github", "nbgrader") else next(iter(tree.files)).split("/")[0] + "/"
    for stray in ("grades.csv", f"{front}notes.txt", f"{front}.DS_Store"):
        (root / stray).write_bytes(b"x")
    found = read_class(root, tree.lab)
    paths = {fate.path for fate in found.fates}
    files = [str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()]
    alone = [file for file in files if not any(path == file or path.startswith(file + "/") for path in paths)]
    of_course = [int(words[1]) for fate in found.fates if (words := fate.words.split())[0] == "has" and fate.read]
    assert len(alone) == sum(of_course) and not found.all_read
    nobodys = {"grades", "notes", "grades.csv", "notes.txt"}
    assert name in ("plain", "by_lab") or not nobodys & {one.student for one in found.handed_in}


def test_an_archive_of_gradescope_in_the_folder_of_a_lab(tmp_path: Path) -> None:
    files = {f"{LAB}/assignment_7_export.zip": zipped(gradescope().files), f"{LAB}/scores.csv": b"x"}
    found = read_class(Tree(files, {}).write(tmp_path))
    assert {one.student for one in found.handed_in} == {student for student, _ in gradescope().counts}


def test_strays_in_an_export_of_gradescope_cost_nobody_their_name(tmp_path: Path) -> None:
    tree = gradescope()
    root = tree.write(tmp_path / "class")
    (root / "assignment_7_export" / "notes.txt").write_text("mine")
    (root / "assignment_7_export" / "loose.py").write_text("# mine")
    found = read_class(root, LAB)
    assert {one.student for one in found.handed_in} == {student for student, _ in tree.counts} | {"loose"}
    assert "loose.py is not named as the platform names files" in found.warnings[0]


def test_an_export_in_a_folder_with_an_instructors_own_files(tmp_path: Path) -> None:
    """As it was downloaded, as an archive, and unpacked by hand: a list of grades beside it changes no student."""
    counts = {"1": work("ada"), "2": work("bob")}
    canvas = {"ada_1_2_submission.py": counts["1"], "bob_2_3_submission.py": counts["2"]}
    moodle = {f"{who}_{who}_assignsubmission_file/submission.py": content for who, content in counts.items()}
    for number, files in enumerate((canvas, moodle)):
        trees = {"archive": {"submissions.zip": zipped(files)}, "week": {f"week/{name}": files[name] for name in files}}
        trees["week"]["week/grades.csv"] = b"x"
        trees["labs"] = {f"{LAB}.zip": zipped(files)}
        trees["lab"] = {f"{LAB}/x.zip": zipped(files), f"{LAB}/grades.csv": b"x"}
        for name, tree in trees.items():
            found = read_class(Tree({**tree, "grades.csv": b"x"}, {}).write(tmp_path / f"{number}{name}"), LAB)
            assert {one.student: one.content for one in found.handed_in if one.content} == counts, (name, found)


def test_clones_of_two_assignments_and_two_clones_of_one(tmp_path: Path) -> None:
    files = {
        f"gpu{n}-submissions/gpu{n}-ada/labs/{lab}/{name}": work(f"{lab}") if name == "submission.py" else b"#"
        for n, lab in ((1, OTHER), (2, LAB))
        for name in ("submission.py", "task.py")
    }
    found = read_class(Tree(files, {}).write(tmp_path / "a"))
    assert [(one.student, one.lab, one.content) for one in found.handed_in] == [
        ("ada", OTHER, work(OTHER)),
        ("ada", LAB, work(LAB)),
    ]
    assert found.all_read


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("names", [("ada_1_2_submission.py", "b_2_3_x.py"), ("submission_1/x.py", "submission_2/x.py")])
def test_a_download_that_lies_where_a_students_files_do_is_no_student(
    names: tuple[str, ...], archive: bool, tmp_path: Path
) -> None:
    """Of two sections, say; their files are not taken for those of a student `section1`."""
    for section in ("section1", "section2"):
        files = {name: work(section + name) for name in names}
        if archive:
            files = {f"{section}.zip": zipped(files)}
        Tree({name if archive else f"{section}/{name}": text for name, text in files.items()}, {}).write(tmp_path)
    found = read_class(tmp_path, LAB)
    assert not any(one.content for one in found.handed_in) and len(found.handed_in) == 2
    assert all("a platform's download of several students" in one.problem for one in found.handed_in)
    one, mia = read_class(
        Tree({"late/eve_5_6_x.py": b"#", "mia/x.py": b"#"}, {}).write(tmp_path / "one"), LAB
    ).handed_in
    assert (one.student, mia.note) == ("late", "") and "named as the file of 5" in one.note
    beside = {"ada.zip": zipped({"eve_5_6_x.py": b"#"}), "mia/x.py": b"#"}
    one, mia = read_class(Tree(beside, {}).write(tmp_path / "beside"), LAB).handed_in
    assert (one.student, mia.note) == ("ada", "") and "named as the file of 5" in one.note
    helpers = {"ada/submission.py": b"#", "ada/test_1_2_a.py": b"# 1", "ada/test_2_3_b.py": b"# 2"}
    (one,) = read_class(Tree(helpers, {}).write(tmp_path / "own"), LAB).handed_in
    assert one.content == b"#" and not one.problem


def test_a_file_per_student_that_cannot_be_read_is_that_students(tmp_path: Path) -> None:
    tree = Tree({"submissions/ada.py": b"# ada", "submissions/bob.pdf": b"%PDF"}, {})
    assert {one.student for one in read_class(tree.write(tmp_path) / "submissions", LAB).handed_in} == {"ada", "bob"}
    archives = {f"submissions/{name}.zip": zipped({"submission.py": work(name)}) for name in ("ada", "bob")}
    found = read_class(Tree(archives, {}).write(tmp_path / "zips") / "submissions", LAB)
    assert {one.student for one in found.handed_in} == {"ada", "bob"} and not found.warnings and found.all_read


def test_somebody_who_is_named_without_a_file_has_a_row(tmp_path: Path) -> None:
    files = dict(gradescope().files)
    del files["assignment_7_export/submission_11/submission.py"]
    found = read_class(Tree(files, {}).write(tmp_path / "a"), LAB)
    rows = {one.student: one for one in found.handed_in}
    assert rows["ada@x.edu"].problem == "The download has no file of ada@x.edu." and not found.all_read
    assert (rows["ada@x.edu"].called, rows["ada@x.edu"].lab) == ("Ada", LAB)
    assert rows["ada@x.edu"].at == read_class(gradescope().write(tmp_path / "all"), LAB).handed_in[0].at != ""
    for place in ("c", "d/assignment_7_export"):  # of an export alone, and of what holds it
        metadata = Tree({path: text for path, text in files.items() if path.endswith(".yml")}, {})
        found = read_class(metadata.write(tmp_path / place[0]) / place[2:], LAB)
        assert [one.student for one in found.handed_in] == sorted(rows) and not found.all_read
    nbgrader = {f"submitted/{who}/{LAB}/timestamp.txt": b"2026-11-20 22:00:00 UTC" for who in ("ada", "bob")}
    nbgrader[f"submitted/bob/{LAB}/submission.py"] = b"# bob"
    rows = {one.student: one for one in read_class(Tree(nbgrader, {}).write(tmp_path / "b")).handed_in}
    assert (rows["ada"].lab, rows["ada"].at[:10], rows["ada"].content) == (LAB, "2026-11-20", b"")
    assert rows["bob"].content == b"# bob"


def test_somebody_without_a_file_for_one_of_several_labs_has_a_row_for_it(tmp_path: Path) -> None:
    export = {path.removeprefix("assignment_7_export/"): content for path, content in gradescope().files.items()}
    files = {f"{lab}/{path}": content for lab in (LAB, OTHER) for path, content in export.items()}
    del files[f"{OTHER}/submission_11/submission.py"]
    found = read_class(Tree(files, {}).write(tmp_path / "two"))
    rows = {one.lab: one for one in found.handed_in if one.student == "ada@x.edu"}
    assert rows[LAB].content and not rows[LAB].problem
    assert (rows[OTHER].content, rows[OTHER].problem) == (b"", "The download has no file of ada@x.edu.")
    assert f"{OTHER}/submission_11" in {fate.path for fate in found.fates if not fate.read}
    for place in [path for path in files if "/submission_11/" in path]:
        del files[place]
    found = read_class(Tree(files, {}).write(tmp_path / "neither"))
    assert sorted(one.lab for one in found.handed_in if one.student == "ada@x.edu") == sorted([LAB, OTHER])


def test_students_of_gradescope_without_metadata_are_called_by_folders_and_that_is_said(tmp_path: Path) -> None:
    files = {
        name: content
        for name, content in gradescope().files.items()
        if not name.endswith("export/submission_metadata.yml")
    }
    found = read_class(Tree(files, {}).write(tmp_path), LAB)
    assert [one.student for one in found.handed_in] == ["submission_11", "submission_12"]
    assert "export the submissions again" in found.warnings[0]


@pytest.mark.parametrize("zip_", [False, True])
def test_work_at_another_place_of_a_clone_is_named(zip_: bool, tmp_path: Path) -> None:
    """A file that the course does not have, where students write; not the course's own files, nor copies in `mine`."""
    own = ("my_transpose.py", f"labs/{LAB}/submission_v2.py", "labs/3_transpose/submission.py", "old/kernel.ipynb")
    courses = ("warplab/plan.py", "warplab/renamed_since.py", "mine/00_start_here.ipynb", f"labs/{LAB}/task.py")
    files = {f"gpu-submissions/gpu-ada/{path}": work(path) for path in (*own, *courses, f"labs/{LAB}/submission.py")}
    if zip_:
        inner = {path.removeprefix("gpu-submissions/"): content for path, content in files.items()}
        files = {"gpu-submissions/ada.zip": zipped(inner), "gpu-submissions/bob.zip": zipped(inner)}
    found = read_class(Tree(files, {}).write(tmp_path), LAB)
    theirs = [fate for fate in found.fates if fate.student == "ada"]
    assert {fate.path.split("/")[-1] for fate in theirs if not fate.read} == {
        path.split("/")[-1] for path in own[:2]
    } | {"submission.py", "kernel.ipynb"}
    assert any("has 4 other files of the course" in fate.words for fate in theirs)
    assert next(one for one in found.handed_in if one.student == "ada").content == work(f"labs/{LAB}/submission.py")


def test_nothing_in_a_folder_or_an_archive_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "bob" / "sub").mkdir(parents=True)
    (tmp_path / "cy.zip").write_bytes(zipped({}))
    (tmp_path / "dee.zip").write_bytes(zipped({"__MACOSX/._submission.py": b"x"}))
    (tmp_path / "eve.py").write_text("# eve")
    found = read_class(tmp_path, LAB)
    unread = {fate.path: fate.words for fate in found.fates if not fate.read}
    assert unread == {
        "ada": "is an empty folder",
        "bob/sub": "is an empty folder",
        "cy.zip": "has no file in it",
        "dee.zip": "has no file in it",
    }
    assert {one.student for one in found.handed_in} == {"cy", "dee", "eve"}


@pytest.mark.parametrize(("content", "words"), [(zipped({}), "has no file in it"), (b"PK", "is no archive")])
def test_the_archive_of_a_lab_that_cannot_be_read_is_no_student(content: bytes, words: str, tmp_path: Path) -> None:
    found = read_class(Tree({f"{LAB}.zip": content, f"{OTHER}/ada.py": b"# a"}, {}).write(tmp_path))
    assert [one.student for one in found.handed_in] == ["ada"] and not found.all_read
    (fate,) = [one for one in found.fates if not one.read]
    assert fate.path == f"{LAB}.zip" and words in fate.words


def test_each_lab_has_its_time(tmp_path: Path) -> None:
    for lab, day in ((LAB, 1), ("01_axpy", 9)):
        place = tmp_path / "submitted" / "ada" / lab
        place.mkdir(parents=True)
        (place / "submission.py").write_text("# x")
        (place / "timestamp.txt").write_text(f"2026-11-0{day} 10:00:00 UTC")
    found = {one.lab: one.at[:10] for one in read_class(tmp_path).handed_in}
    assert found == {LAB: "2026-11-01", "01_axpy": "2026-11-09"}


def test_people_of_one_name_without_an_address_are_told_apart(tmp_path: Path) -> None:
    metadata = "".join(f"submission_{n}:\n  :submitters:\n  - :name: Same\n" for n in (1, 2))
    for n in (1, 2):
        (tmp_path / f"submission_{n}").mkdir()
        (tmp_path / f"submission_{n}" / "submission.py").write_bytes(b"# the same file")
    (tmp_path / "submission_metadata.yml").write_text(metadata)
    found = read_class(tmp_path, LAB).handed_in
    assert [(one.student, one.called) for one in found] == [
        ("Same submission_1", "Same"),
        ("Same submission_2", "Same"),
    ]
