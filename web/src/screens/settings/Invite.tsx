import { useState } from "react";

import { api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { Button } from "@/ui/Button";
import { ShownOnce } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { SelectField, TextField } from "@/ui/Field";
import { Time } from "@/ui/Time";

import { FormDialog, textOf } from "./parts";
import { type Role, ROLES, rolesToGive } from "./roles";
import { refresh } from "./task";

/** Invites somebody: asks for whom, then shows the link once. */
export function Invite({ onClose }: { onClose: () => void }) {
  const isOwner = useMay("tenant:write");
  const [role, setRole] = useState<Role>("member");
  const [invitation, setInvitation] = useState<Schemas["InvitationCreated"]>();
  if (invitation) return <InvitationLink invitation={invitation} onClose={onClose} />;
  const send = async (fields: FormData) => {
    const answer = await api.POST("/api/invitations", { body: { email: textOf(fields, "email"), role } });
    setInvitation(answer.data);
    await refresh("/api/invitations", "/api/plan");
  };
  return (
    <FormDialog title="Invite somebody" action="Make the link" closes={false} onSend={send} onClose={onClose}>
      <TextField label="E-mail address" name="email" type="email" required maxLength={254} autoFocus hint="Only an account with this address can use the link." />
      <SelectField label="Role" value={role} hint={ROLES[role].note} onChange={(event) => setRole(event.target.value as Role)}>
        {rolesToGive(isOwner).map((each) => (
          <option key={each} value={each}>
            {ROLES[each].name}
          </option>
        ))}
      </SelectField>
      <p className="text-sm text-soft">AgentOS sends no e-mail. You get a link, and hand it over yourself.</p>
    </FormDialog>
  );
}

function InvitationLink({ invitation, onClose }: { invitation: Schemas["InvitationCreated"]; onClose: () => void }) {
  return (
    <Dialog
      title={`The link for ${invitation.email}`}
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <p className="text-sm text-soft">
        Give it to them yourself: no e-mail was sent. It is shown only now, works once, and ends <Time at={invitation.expires_at} />.
      </p>
      <ShownOnce label="invitation link" text={serverUrl(`/join?token=${encodeURIComponent(invitation.token)}`)} />
    </Dialog>
  );
}
