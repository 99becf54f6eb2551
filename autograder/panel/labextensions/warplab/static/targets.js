// The submission that the panel is about: the file or the %%submit cell that was worked on last.

const MAGIC = /^\s*%%submit[ \t]+(\S+)/;

export class Targets {
  // `labOf(path)` is the lab of a file below the server's folder, or undefined.
  constructor(shell, notebooks, labOf, onChange) {
    this.current = null;
    this._shell = shell;
    this._labOf = labOf;
    this._onChange = onChange;
    shell.currentChanged?.connect(() => this.update());
    notebooks?.activeCellChanged.connect(() => this.update());
  }

  // Reports, terminals and the like leave the submission in the panel.
  update() {
    const found = this._ofWidget(this._shell.currentWidget);
    if (found && found.key !== this.current?.key) {
      this.current = found;
      this._onChange(found);
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
        show: () => this._shell.activateById(widget.id)
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
      key: `${path}#${cell.model.id}`,
      path: null,
      lab,
      name: `cell of ${path.split('/').pop()}`,
      // A cell that is scrolled far away may have no editor.
      get editor() {
        return cell.editor;
      },
      model: cell.model.sharedModel,
      save: () => Promise.resolve(),
      show: () => this._shell.activateById(widget.id)
    };
  }
}
