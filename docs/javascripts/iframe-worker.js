// A browser starts no worker for a page that is read from a file, and the search is one: there it runs in a frame.
// (The name is what the theme's plugin `offline` looks for; without it the plugin fetches such a script elsewhere.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.worker = this;
      this.frame.srcdoc = `<script>postMessage = data => frameElement.worker.told(data)</script><script src="${url}"></script>`;
      this.ready = new Promise(loaded => { this.frame.onload = loaded; });
      document.body.append(this.frame);
    }
    told(data) {
      setTimeout(() => this.dispatchEvent(new MessageEvent("message", {data})));
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
