/** A date and time as a clock on the wall shows it. Months count from 1. */
export interface Wall {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
}

const DAY = 86_400_000;
const MINUTE = 60_000;
const formats = new Map<string, Intl.DateTimeFormat>();

function formatFor(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(zone, format);
  }
  return format;
}

/** Whether this browser knows the time zone. */
export function isZone(zone: string): boolean {
  try {
    formatFor(zone);
    return true;
  } catch {
    return false;
  }
}

/** What clocks in the zone show at an instant (milliseconds since 1970). */
export function wallAt(instant: number, zone: string): Wall {
  const wall: Wall = { year: 0, month: 0, day: 0, hour: 0, minute: 0, second: 0 };
  for (const part of formatFor(zone).formatToParts(instant)) {
    if (part.type in wall) wall[part.type as keyof Wall] = Number(part.value);
  }
  return wall;
}

/** The wall's numbers as if they were in UTC: walls can be compared and counted with it. */
export function numberOf(wall: Wall): number {
  return Date.UTC(wall.year, wall.month - 1, wall.day, wall.hour, wall.minute, wall.second);
}

/** How far the zone's clocks are ahead of UTC at an instant, in milliseconds. */
export function offsetAt(instant: number, zone: string): number {
  const whole = Math.floor(instant / 1000) * 1000;
  return numberOf(wallAt(whole, zone)) - whole;
}

/** The instants at which clocks show it: two in the hour that comes twice, none in the missing one. */
export function instantsOf(number: number, zone: string): number[] {
  const offsets = new Set([offsetAt(number - DAY, zone), offsetAt(number + DAY, zone)]);
  return [...offsets]
    .map((offset) => number - offset)
    .filter((instant) => instant + offsetAt(instant, zone) === number)
    .sort((a, b) => a - b);
}

/** The first instant at which clocks show it, or, if they never do, the one right after the gap. */
export function instantOf(number: number, zone: string): number {
  for (let wall = number; wall <= number + DAY; wall += MINUTE) {
    const [first] = instantsOf(wall, zone);
    if (first !== undefined) return first;
  }
  return number;
}

/** "2030-05-31T09:00", as `<input type="datetime-local">` writes it, read in a zone. */
export function readLocal(text: string, zone: string): number | undefined {
  const match = /^(\d{4,6})-(\d\d)-(\d\d)T(\d\d):(\d\d)/.exec(text);
  if (!match) return undefined;
  const [year, month, day, hour, minute] = match.slice(1).map(Number) as [number, number, number, number, number];
  return instantOf(numberOf({ year, month, day, hour, minute, second: 0 }), zone);
}

/** The instant for `<input type="datetime-local">`, in a zone. */
export function writeLocal(instant: number, zone: string): string {
  return new Date(numberOf(wallAt(instant, zone))).toISOString().slice(0, 16);
}
