const apple = /Mac|iPhone|iPad/.test(navigator.platform);

/** A key or a sequence of keys; `mod` is ⌘ or Ctrl. */
export function Kbd({ keys }: { keys: string }) {
  return (
    <span className="inline-flex items-center gap-1">
      {keys.split(" ").map((key, index) => (
        <kbd key={index} className="rounded-sm border border-line bg-sunken px-1.5 py-0.5 text-2xs font-medium text-soft">
          {key.replace("mod", apple ? "⌘" : "Ctrl").replace("+", apple ? "" : " ")}
        </kbd>
      ))}
    </span>
  );
}
