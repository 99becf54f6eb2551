// The plugin: puts the panel into JupyterLab and ties it to the editors and to the server.

import { Frames } from './frames.js';
import { Marks } from './marks.js';
import { Panel } from './panel.js';
import { Server } from './server.js';
import { Targets, bodyOf } from './targets.js';

const ID = 'warplab-panel';
const WIDE = 900; // pixels; on a narrower window the panel would cover the notebook
const IDLE = 500; // ms without a key before a check
const LIVE = 'warplab-panel-live'; // in the browser's storage: 0 for no checks while one types
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

  const activate = (app, extensions, restorer, palette, notebooks, themes) => {
    const marks = new Marks(state, view);
    const server = new Server(services, coreutils);
    const reports = new Map(); // the last of each target
    const labs = new Map(); // by the paths of their files
    const handouts = new Map();
    const due = new Set(); // keys of targets that were edited since they were checked
    let queue = Promise.resolve();
    let live = localStorage.getItem(LIVE) !== '0';
    let busy = false;
    let timer = 0;

    const open = (path, options = {}) => app.commands.execute('docmanager:open', { path, ...options });
    const actions = {
      run,
      microscope,
      setLive,
      goTo,
      open,
      openHandout: (path, lab) => open(path || handouts.get(lab), { factory: 'Markdown Preview' })
    };
    const widget = new lumino.Widget();
    widget.id = ID;
    widget.node.style.minWidth = '280px'; // before the style sheet is there, for the layout is made once
    widget.title.icon = icon(ui);
    widget.title.caption = 'Warplab';
    const panel = new Panel(widget.node, actions, live);
    const targets = new Targets(app.shell, notebooks, path => labs.get(path), showTarget, edited);
    const frames = new Frames(app.shell, lumino);

    function showTarget(target) {
      panel.showTarget(target);
      panel.showReport(reports.get(target.key) || null);
      if (target.path) {
        edited(); // the worker gets warm; what a cell of a chapter gives is told when it runs
      }
    }

    function setLive(whether) {
      live = whether;
      localStorage.setItem(LIVE, live ? '1' : '0');
      schedule();
    }

    function edited() {
      due.add(targets.current.key);
      schedule();
    }

    // Checks what was edited once nothing has been typed for a while.
    function schedule() {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (live && widget.isVisible && !busy && due.has(targets.current?.key)) {
          void run('live');
        }
      }, IDLE);
    }

    // One request after the other.
    function alone(what, work) {
      queue = queue.then(async () => {
        busy = true;
        panel.showStep({ step: 'starting', fraction: 0 });
        try {
          await work();
        } catch (error) {
          panel.showError(`The ${what} did not come to an end: ${error.message}`);
        }
        busy = false;
        panel.showIdle();
        schedule();
      });
      return queue;
    }

    function asked({ key, path, model }) {
      due.delete(key);
      return { path, text: model.getSource() };
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

    function run(way) {
      const target = targets.current;
      return alone(way, async () => {
        if (way !== 'live') {
          await target.save();
        }
        const body = { way, ...asked(target) };
        const { report, error } = await server.grade(body, step => panel.showStep(step));
        if (error) {
          panel.showError(error);
        } else {
          keep(target, report, body.text);
        }
        if (way === 'grade') {
          await refresh();
        }
      });
    }

    function microscope() {
      const target = targets.current;
      return alone('microscope', async () => {
        panel.showStep({ step: 'emulating the profile case', fraction: 0.5 });
        const { page, error } = await server.microscope({ path: target.path, text: target.model.getSource() });
        if (error) {
          panel.showError(error);
        } else {
          frames.show(target, page);
        }
      });
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

    // %%submit keeps the report's data beside its picture, with the graded text: a saved cell may hold another text.
    function keepOfCell({ cell, notebook: content }) {
      const target = targets.ofCell(cell, content.parent);
      const outputs = (target && cell.model.outputs?.toJSON()) || [];
      const found = outputs.map(output => output.metadata?.['text/html']?.warplab).find(found => found);
      if (found && found.text.trimEnd() === bodyOf(target.model.getSource()).trimEnd()) {
        due.delete(target.key);
        keep(target, found.report, target.model.getSource());
      }
    }

    function goTo(line) {
      const target = targets.current;
      app.shell.activateById(target.widget.id);
      const position = { line: line - 1, column: 0 };
      target.editor?.setCursorPosition(position);
      target.editor?.revealPosition(position);
      target.editor?.focus();
    }

    extensions.addExtension({
      name: 'warplab:marks',
      factory: ({ model }) => codemirror.EditorExtensionRegistry.createImmutableExtension(marks.extension(model.sharedModel))
    });
    themes?.themeChanged.connect(() => frames.paint());
    notebook.NotebookActions.executed.connect((_, executed) => keepOfCell(executed));
    notebooks?.widgetAdded.connect(async (_, { content, revealed }) => {
      await revealed;
      content.widgets.forEach(cell => keepOfCell({ cell, notebook: content }));
    });
    widget.onAfterShow = () => {
      schedule();
      void refresh(); // questions may have been answered
    };
    app.shell.add(widget, 'right', { rank: 10 });
    restorer?.add(widget, ID);
    for (const [id, label, execute] of [
      ['warplab:check', 'Check This Submission', () => run('check')],
      ['warplab:grade', 'Grade This Submission', () => run('grade')],
      ['warplab:microscope', 'Show the Microscope of This Submission', microscope],
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
    optional: [application.ILayoutRestorer, apputils.ICommandPalette, notebook.INotebookTracker, apputils.IThemeManager],
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
