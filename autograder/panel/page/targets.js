// The submission that the panel is about: the file or the %%submit cell that was worked on last.

const MAGIC = /^\s*%%submit[ \t]+(\S+)/;

// The text of a cell below its %%submit line, which is what is graded.
export const bodyOf = source => source.replace(/^\s*%%submit[^\n]*\n?/, '');

export class Targets {
  // `labOf(path)` is the lab of a file below the server's folder, or undefined.
  constructor(shell, notebooks, labOf, onChange, onEdit) {
    this.current = null;
    this._shell = shell;
    this._labOf = labOf;
    this._onChange = onChange;
    this._onEdit = onEdit;
    this._watched = null; // a model: a cell becomes a submission when %%submit is typed
    this._edited = this._edited.bind(this);
    shell.currentChanged?.connect(() => this.update());
    notebooks?.activeCellChanged.connect(() => this.update());
  }

  // Reports, terminals and the like leave the submission in the panel.
  update() {
    const widget = this._shell.currentWidget;
    this._watch((widget?.content?.editor || widget?.content?.activeCell)?.model.sharedModel);
    const found = this._ofWidget(widget);
    if (found && found.key !== this.current?.key) {
      this.current = found;
      this._onChange(found);
    }
  }

  _watch(model) {
    if (model && model !== this._watched) {
      this._watched?.changed.disconnect(this._edited);
      model.changed.connect(this._edited);
      this._watched = model;
    }
  }

  _edited(model, change) {
    if (change.sourceChange) {
      this.update();
      if (this.current?.model === model) {
        this._onEdit();
      }
    }
  }

  _ofWidget(widget) {
    const path = widget?.context?.path;
    const editor = widget?.content?.editor;
    const cell = widget?.content?.activeCell;
    if (path && editor && this._labOf(path)) {
      return {
        key: path,
        path,
        lab: this._labOf(path),
        name: path.split('/').pop(),
        editor,
        model: editor.model.sharedModel,
        save: () => (widget.context.model.dirty ? widget.context.save() : Promise.resolve()),
        widget
      };
    }
    return cell ? this.ofCell(cell, widget) : null;
  }

  // null for a cell that does not begin with %%submit.
  ofCell(cell, widget) {
    const path = widget.context.path;
    const lab = cell.model.type === 'code' && MAGIC.exec(cell.model.sharedModel.getSource())?.[1];
    if (!lab) {
      return null;
    }
    return {
      key: `${path}#${cell.model.id}#${lab}`,
      path: null,
      lab,
      name: `cell of ${path.split('/').pop()}`,
      // A cell that is scrolled far away may have no editor.
      get editor() {
        return cell.editor;
      },
      model: cell.model.sharedModel,
      save: () => Promise.resolve(),
      widget
    };
  }
}
