import {
  Bot,
  CircleDot,
  Flag,
  type LucideIcon,
  MessageSquare,
  Scissors,
  ShieldCheck,
  Undo2,
  UserCheck,
  Wrench,
} from "lucide-react";

import type { Schemas } from "@/api/types";

type Kind = Schemas["StepRead"]["kind"];

interface KindLook {
  icon: LucideIcon;
  word: string;
  /** The colour of its icon and of its bar. */
  ink: string;
  bar: string;
}

export const KINDS: Record<Kind, KindLook> = {
  message: { icon: MessageSquare, word: "Message", ink: "text-accent-ink", bar: "bg-accent" },
  state: { icon: CircleDot, word: "State", ink: "text-faint", bar: "bg-calm" },
  model: { icon: Bot, word: "Model", ink: "text-info", bar: "bg-info" },
  tool: { icon: Wrench, word: "Tool", ink: "text-good", bar: "bg-good" },
  checkpoint: { icon: Flag, word: "Checkpoint", ink: "text-accent-ink", bar: "bg-accent" },
  gate: { icon: ShieldCheck, word: "Gate", ink: "text-warn", bar: "bg-warn" },
  rollback: { icon: Undo2, word: "Rollback", ink: "text-bad", bar: "bg-bad" },
  compaction: { icon: Scissors, word: "Compaction", ink: "text-faint", bar: "bg-calm" },
  approval: { icon: UserCheck, word: "Approval", ink: "text-warn", bar: "bg-warn" },
};
