const BROWSERS: [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/(Headless)?Chrom(e|ium)\//, "Chrome"],
  [/Safari\//, "Safari"],
  [/^agentos/i, "The agentos command"],
  [/^curl\//, "curl"],
  [/python|httpx|aiohttp/i, "A Python program"],
];
const SYSTEMS: [RegExp, string][] = [
  [/iPhone|iPad/, "iOS"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
];

/** What a sign-in came from, as people call it: "Firefox on Linux". */
export function deviceOf(userAgent: string): string {
  const browser = BROWSERS.find(([shape]) => shape.test(userAgent))?.[1] ?? "Another program";
  const system = SYSTEMS.find(([shape]) => shape.test(userAgent))?.[1];
  return system ? `${browser} on ${system}` : browser;
}
