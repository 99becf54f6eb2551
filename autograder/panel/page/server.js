// Requests to autograder.panel.handlers, with the login and the XSRF token of JupyterLab's own requests.

export class Server {
  constructor(services, coreutils) {
    this._connection = services.ServerConnection;
    this._settings = services.ServerConnection.makeSettings();
    this._join = coreutils.URLExt.join;
  }

  contents() {
    return this._asked('contents').then(response => response.json());
  }

  // `onStep` gets {step, fraction} as the work goes on. Resolves to the last line: {report} or {error}.
  async grade(body, onStep) {
    const response = await this._asked('grade', body);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let left = '';
    let last = { error: 'The server closed the connection before the report was there. Check again.' };
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return last;
      }
      const lines = (left + value).split('\n');
      left = lines.pop();
      for (const line of lines) {
        last = JSON.parse(line);
        if (last.step) {
          onStep(last);
        }
      }
    }
  }

  // Resolves to {page}, the HTML of the microscope, or {error}.
  microscope(body) {
    return this._asked('microscope', body).then(response => response.json());
  }

  async _asked(name, body) {
    const url = this._join(this._settings.baseUrl, 'warplab', name);
    const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    const response = await this._connection.makeRequest(url, init, this._settings);
    if (!response.ok) {
      throw await this._connection.ResponseError.create(response);
    }
    return response;
  }
}
