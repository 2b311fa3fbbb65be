// Search from file://: browsers start no worker there, so one runs in an iframe. The theme's own shim would be fetched.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.onmessage = null;
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.srcdoc = "<!doctype html>"; // of the page's origin, and with a load event in every browser
    this.ready = new Promise((resolve, reject) => {
      frame.onload = () => {
        this.scope = frame.contentWindow;
        this.scope.postMessage = (data) => this.receive(data);
        this.scope.importScripts = (...urls) =>
          urls.reduce((loaded, each) => loaded.then(() => load(this.scope, each)), Promise.resolve());
        load(this.scope, new URL(url, document.baseURI).href).then(resolve, reject);
      };
    });
    document.body.append(frame);
  }

  postMessage(data) {
    this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })));
  }

  receive(data) {
    const event = new MessageEvent("message", { data });
    this.dispatchEvent(event);
    this.onmessage?.(event);
  }
}

function load(scope, url) {
  return new Promise((resolve, reject) => {
    const script = scope.document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${url} cannot be loaded`));
    scope.document.head.append(script);
  });
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
