import type { Schemas } from "@/api/types";

import type { Action } from "../actions";
import type { Step } from "../journal";
import { ContinueDialog } from "./ContinueDialog";
import { ForkDialog } from "./ForkDialog";
import { RestoreDialog } from "./RestoreDialog";
import { RollBackDialog } from "./RollBackDialog";
import { BudgetDialog, CancelDialog, CheckpointDialog } from "./SmallDialogs";

interface Props {
  session: Schemas["SessionDetails"];
  steps: Step[];
  open: { action: Action; seq: number };
  onClose: () => void;
}

/** The dialog of an action that asks before it does something. */
export function Dialogs({ session, steps, open, onClose }: Props) {
  const props = { session, steps, onClose };
  switch (open.action) {
    case "fork":
      return <ForkDialog {...props} seq={open.seq} />;
    case "rollback":
      return <RollBackDialog {...props} seq={open.seq} />;
    case "restore":
      return <RestoreDialog {...props} />;
    case "continue":
      return <ContinueDialog session={session} onClose={onClose} />;
    case "cancel":
      return <CancelDialog session={session} onClose={onClose} />;
    case "checkpoint":
      return <CheckpointDialog session={session} onClose={onClose} />;
    case "budget":
      return <BudgetDialog session={session} onClose={onClose} />;
    default:
      return null;
  }
}
