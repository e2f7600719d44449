import { Dialog } from "@/ui/Dialog";
import { Kbd } from "@/ui/Kbd";

import { useShortcuts } from "./shortcuts";

export function ShortcutsHelp({ onClose }: { onClose: () => void }) {
  const shortcuts = useShortcuts();
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="grid gap-2 text-sm">
        {shortcuts.map((shortcut) => (
          <div key={shortcut.keys} className="flex items-center justify-between gap-4">
            <dt>{shortcut.name}</dt>
            <dd>
              <Kbd keys={shortcut.keys} />
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
