export class NextRequest extends Request {
  constructor(url, jar) {
    super(url)
    this.nextUrl = new URL(url)
    const cookies = new Map(jar)
    this.cookies = {
      getAll: () => [...cookies].map(([name, value]) => ({ name, value })),
      set: (name, value) => void cookies.set(name, value),
      delete: (name) => void cookies.delete(name),
    }
  }
}

export class NextResponse extends Response {
  changed = []
  cookies = { set: (name, value, options) => void this.changed.push({ name, value, options }) }

  static next = (init) => Object.assign(new NextResponse(), { request: init?.request })

  static redirect(url) {
    return new NextResponse(null, { status: 307, headers: { Location: String(url) } })
  }
}
