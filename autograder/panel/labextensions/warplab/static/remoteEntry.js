// The container that JupyterLab looks for (module federation), written by hand: there is no build step.
// `init` gets the modules that JupyterLab shares, `get` gives a factory of ours.
(() => {
  const here = document.currentScript.src;
  const beside = name => new URL(name, here).href;
  let scope = {};

  const shared = async name => {
    const [version] = Object.values(scope[name] || {});
    if (!version) {
      throw new Error(`JupyterLab shares no module ${name}.`);
    }
    return (await version.get())();
  };

  const modules = {
    './extension': async () => {
      const { plugin } = await import(beside('plugin.js'));
      return { __esModule: true, default: await plugin(shared) };
    },
    './style': async () => {
      const link = document.createElement('link');
      link.rel = 'stylesheet';
      link.href = beside('panel.css');
      document.head.append(link);
      return {};
    }
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB.warplab = {
    init: given => {
      scope = given;
    },
    get: async name => {
      const made = await modules[name]();
      return () => made;
    }
  };
})();
