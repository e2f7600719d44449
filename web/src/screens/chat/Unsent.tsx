import { CircleAlert, Pencil, RotateCw } from "lucide-react";

import { Button } from "@/ui/Button";
import { Spinner } from "@/ui/Spinner";

import { Bubble } from "./Exchange";
import { Said } from "./Said";
import type { Send } from "./thread";

/** A message has a key of its own: the server takes it once. */
const SAFE = "Should it have arrived, a retry does not double it.";

interface Props {
  send: Send;
  onResend: (send: Send) => void;
  onEdit: (send: Send) => void;
}

/** A message that the server has not yet said it has. */
export function Unsent({ send, onResend, onEdit }: Props) {
  const failed = send.state === "failed";
  return (
    <article aria-label="Your message" className="grid">
      <Bubble
        by={
          failed ? undefined : (
            <p className="flex items-center gap-1.5 text-xs text-faint">
              <Spinner size={12} /> Sending
            </p>
          )
        }
      >
        <Said text={send.text} faded />
        {send.attachments.length > 0 && <p className="text-xs text-faint">With {send.attachments.map((each) => each.name).join(", ")}</p>}
        {failed && (
          <div role="alert" className="flex max-w-md flex-wrap items-center justify-end gap-2 text-xs">
            <p className="flex items-start gap-1.5 text-bad">
              <CircleAlert size={14} aria-hidden className="mt-px shrink-0" />
              <span>
                Not sent. {send.problem?.message} {send.problem?.status === 0 ? SAFE : send.problem?.hint}
              </span>
            </p>
            <Button size="small" icon={<RotateCw size={13} />} onClick={() => onResend(send)}>
              Retry
            </Button>
            <Button size="small" look="quiet" icon={<Pencil size={13} />} onClick={() => onEdit(send)}>
              Edit
            </Button>
          </div>
        )}
      </Bubble>
    </article>
  );
}
