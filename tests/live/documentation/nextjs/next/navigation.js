export class Redirect extends Error {
  constructor(url) {
    super(`redirect to ${url}`)
    this.url = url
  }
}

export function redirect(url) {
  throw new Redirect(url)
}
