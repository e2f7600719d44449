import { Check, Copy as CopyIcon, Terminal } from "lucide-react";
import { useEffect, useState } from "react";

import { curl } from "@/lib/curl";

import { Button, IconButton } from "./Button";

function useCopy(text: string): [boolean, () => void] {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1600);
    return () => clearTimeout(timer);
  }, [copied]);
  return [copied, () => void copyText(text).then(() => setCopied(true))];
}

/** Puts text on the clipboard, also on plain http, where browsers hide the modern way. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const box = document.createElement("textarea");
  box.value = text;
  document.body.append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, copy] = useCopy(text);
  return (
    <IconButton label={copied ? "Copied" : label} size="small" onClick={copy}>
      {copied ? <Check size={14} className="text-good" /> : <CopyIcon size={14} />}
    </IconButton>
  );
}

/** The same as a call to the API, for a shell. */
export function CopyCurl({ method, path, body }: { method: string; path: string; body?: unknown }) {
  const [copied, copy] = useCopy(curl(method, path, body));
  return (
    <Button size="small" look="quiet" icon={copied ? <Check size={14} /> : <Terminal size={14} />} onClick={copy}>
      <span aria-live="polite">{copied ? "Copied" : "Copy as curl"}</span>
    </Button>
  );
}

/** A secret that is shown once, with its copy button. */
export function ShownOnce({ text, label }: { text: string; label: string }) {
  return (
    <div className="flex items-center gap-2 rounded-md border border-line bg-sunken p-2">
      <code aria-label={label} className="min-w-0 flex-1 text-sm break-all select-all">
        {text}
      </code>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  );
}
