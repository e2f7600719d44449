/** The entries that are files: a directory is there by itself as well, and shows in its files. */
export function onlyFiles<T extends { path: string }>(entries: T[]): T[] {
  const directories = new Set<string>();
  for (const { path } of entries) {
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) directories.add(path.slice(0, at));
  }
  return entries.filter(({ path }) => !directories.has(path));
}
