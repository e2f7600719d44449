/** Money is counted in millionths of a US dollar. */
export function formatMoney(micros: number | null | undefined): string {
  if (micros === null || micros === undefined) return "unknown";
  const dollars = micros / 1_000_000;
  if (dollars === 0) return "$0.00";
  if (Math.abs(dollars) < 0.01) return `$${dollars.toFixed(Math.abs(dollars) < 0.0001 ? 6 : 4)}`;
  return dollars.toLocaleString("en-US", { style: "currency", currency: "USD" });
}

const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en-US");

/** 1234567 → "1.2M". */
export function formatCount(count: number): string {
  return count < 10_000 ? whole.format(count) : short.format(count);
}

/** One thing or several: `plural(2, "step")` → "2 steps". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

/** How long something took: "340 ms", "12.4 s", "3 min 20 s", "2 h 5 min". */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return join(minutes, "min", Math.round(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return join(hours, "h", minutes % 60, "min");
  return join(Math.floor(hours / 24), "d", hours % 24, "h");
}

function join(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

const relative = new Intl.RelativeTimeFormat("en-US", { numeric: "auto" });
const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** "3 minutes ago", "in 2 hours", or the date when it is more than a week away. */
export function formatRelative(at: string | Date, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  const distance = Math.abs(seconds);
  if (distance > 7 * 86_400) return formatDate(at);
  for (const [unit, size] of steps) {
    if (distance >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return distance < 10 ? "just now" : relative.format(Math.trunc(seconds), "second");
}

/** A day, in the reader's time zone. */
export function formatDate(at: string | Date): string {
  return new Date(at).toLocaleDateString("en-US", { dateStyle: "medium" });
}

/** A moment to the second, in the reader's time zone, which is named. */
export function formatMoment(at: string | Date): string {
  return new Date(at).toLocaleString("en-US", {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "short",
  });
}

/** The reader's own time zone, e.g. "Europe/Berlin". */
export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
