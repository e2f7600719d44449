/** What an address ends in, after #, to open this run among the others. */
export function runAnchor(runId: string): string {
  return `run-${runId}`;
}
