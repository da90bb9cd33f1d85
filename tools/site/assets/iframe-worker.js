/* A page that was opened from disk may start no worker: search then runs in a hidden frame of the page.
   The theme asks for a window's IFrameWorker, and has a copy of iframe-worker fetched from elsewhere if there is none. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.tell = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = () => {
        const early = this.waiting.splice(0);
        this.waiting = null;
        early.forEach(this.tell);
      };
      inside.document.body.appendChild(script);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else setTimeout(this.tell, 0, data);
    }
  };
  window.Worker = window.IFrameWorker;
}
