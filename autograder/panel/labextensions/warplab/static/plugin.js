// The plugin: puts the panel into JupyterLab and ties it to the editors and to the server.

import { Marks } from './marks.js';
import { Panel } from './panel.js';
import { Server } from './server.js';
import { Targets } from './targets.js';

const ID = 'warplab-panel';
const WIDE = 900; // pixels; on a narrower window the panel would cover the notebook
const SEEN = 'warplab-panel-seen'; // in the browser's storage: the panel has once opened by itself

export async function plugin(shared) {
  const [application, apputils, codemirror, coreutils, lumino, notebook, services, state, ui, view] = await Promise.all(
    [
      '@jupyterlab/application',
      '@jupyterlab/apputils',
      '@jupyterlab/codemirror',
      '@jupyterlab/coreutils',
      '@lumino/widgets',
      '@jupyterlab/notebook',
      '@jupyterlab/services',
      '@codemirror/state',
      '@jupyterlab/ui-components',
      '@codemirror/view'
    ].map(shared)
  );

  const activate = (app, extensions, restorer, palette, notebooks) => {
    const marks = new Marks(state, view);
    const server = new Server(services, coreutils);
    const reports = new Map(); // the last of each target
    const labs = new Map(); // by the paths of their files
    const handouts = new Map();
    let busy = false;

    const open = (path, options = {}) => app.commands.execute('docmanager:open', { path, ...options });
    const actions = {
      run,
      goTo,
      open,
      openHandout: (path, lab) => open(path || handouts.get(lab), { factory: 'Markdown Preview' })
    };
    const widget = new lumino.Widget();
    widget.id = ID;
    widget.title.icon = icon(ui);
    widget.title.caption = 'Warplab';
    const panel = new Panel(widget.node, actions);
    const targets = new Targets(app.shell, notebooks, path => labs.get(path), showTarget);

    function showTarget(target) {
      panel.showTarget(target);
      panel.showReport(reports.get(target.key) || null);
    }

    async function refresh() {
      try {
        const contents = await server.contents();
        labs.clear();
        for (const lab of contents.labs) {
          lab.files.forEach(path => labs.set(path, lab.name));
          handouts.set(lab.name, lab.handout);
        }
        panel.showContents(contents);
        targets.update();
      } catch (error) {
        panel.showError(`The list of labs did not load: ${error.message}`);
      }
    }

    async function run(way) {
      const target = targets.current;
      if (!target || busy) {
        return;
      }
      busy = true;
      panel.showStep({ step: 'starting', fraction: 0 });
      try {
        await target.save();
        const body = { way, path: target.path, text: target.model.getSource() };
        const { report, error } = await server.grade(body, step => panel.showStep(step));
        if (error) {
          panel.showError(error);
        } else {
          keep(target, report, body.text);
        }
        if (way === 'grade') {
          await refresh();
        }
      } catch (error) {
        panel.showError(`The ${way} did not come to an end: ${error.message}`);
      } finally {
        busy = false;
        panel.showIdle();
      }
    }

    // Marks would be at other lines of a text that has changed meanwhile.
    function keep({ key, model }, report, text) {
      reports.set(key, report);
      if (model.getSource() === text) {
        marks.set(model, report.marks);
      }
      if (targets.current?.key === key) {
        panel.showReport(report);
      }
    }

    // %%submit leaves its report beside the picture of it.
    function keepOfCell({ cell, notebook: content }) {
      const target = targets.ofCell(cell, content.parent);
      const outputs = (target && cell.model.outputs?.toJSON()) || [];
      const report = outputs.map(output => output.metadata?.['text/html']?.warplab).find(found => found);
      if (report) {
        keep(target, report, target.model.getSource());
      }
    }

    function goTo(line) {
      const target = targets.current;
      target.show();
      const position = { line: line - 1, column: 0 };
      target.editor?.setCursorPosition(position);
      target.editor?.revealPosition(position);
      target.editor?.focus();
    }

    extensions.addExtension({
      name: 'warplab:marks',
      factory: ({ model }) => codemirror.EditorExtensionRegistry.createImmutableExtension(marks.extension(model.sharedModel))
    });
    notebook.NotebookActions.executed.connect((_, executed) => keepOfCell(executed));
    app.shell.add(widget, 'right', { rank: 10 });
    restorer?.add(widget, ID);
    for (const [id, label, execute] of [
      ['warplab:check', 'Check This Submission', () => run('check')],
      ['warplab:grade', 'Grade This Submission', () => run('grade')],
      ['warplab:show', 'Show the Warplab Panel', () => app.shell.activateById(ID)]
    ]) {
      app.commands.addCommand(id, { label, execute, isEnabled: () => id === 'warplab:show' || !!targets.current });
      palette?.addItem({ command: id, category: 'Warplab' });
    }
    void refresh();
    void app.restored.then(() => {
      targets.update();
      if (window.innerWidth >= WIDE && !localStorage.getItem(SEEN)) {
        localStorage.setItem(SEEN, '1');
        app.shell.activateById(ID);
      }
    });
  };

  return {
    id: 'warplab:panel',
    description: 'Labs, reports and counters beside the code.',
    autoStart: true,
    requires: [codemirror.IEditorExtensionRegistry],
    optional: [application.ILayoutRestorer, apputils.ICommandPalette, notebook.INotebookTracker],
    activate
  };
}

// Four lanes of a warp, one of them idle.
function icon({ LabIcon }) {
  const bar = (y, width) => `<rect x="3" y="${y}" width="${width}" height="3" rx="1"/>`;
  const bars = [bar(3, 18), bar(8, 18), bar(13, 8), bar(18, 18)].join('');
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">${bars}</g></svg>`;
  return new LabIcon({ name: 'warplab:icon', svgstr });
}
