export function redirect(url: string): never
