// Runs the search of the theme in a frame on pages from file://, where browsers start no workers.
'use strict'

if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement('iframe')
      frame.hidden = true
      document.documentElement.append(frame)
      this.scope = frame.contentWindow
      this.scope.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)))
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent('message', { data }))
      this.loaded = this.load(url)
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.scope.document.createElement('script')
        Object.assign(script, { src: url, async: false, onload: resolve, onerror: reject })
        this.scope.document.head.append(script)
      })
    }

    async postMessage(data) {
      await this.loaded
      this.scope.dispatchEvent(new MessageEvent('message', { data }))
    }
  }
}
