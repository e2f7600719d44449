import { useState } from "react";

import { $api, api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Badge } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { More } from "@/ui/More";
import { Time } from "@/ui/Time";

import { Ask, Line, Lines, Loaded } from "./parts";
import { ROLES } from "./roles";
import { refresh } from "./task";

type Invitation = Schemas["InvitationRead"];

/** Invitations that nobody has used yet. */
export function Invitations() {
  const invitations = $api.useInfiniteQuery("get", "/api/invitations", { params: { query: { limit: 50 } } }, paged);
  const may = useMay("members:write");
  const [revoking, setRevoking] = useState<Invitation>();
  return (
    <Section title="Open invitations">
      <Loaded query={invitations} rows={1}>
        {(found) =>
          itemsOf(found).length === 0 ? (
            <p className="text-sm text-soft">None. Invitations that were not used yet are listed here.</p>
          ) : (
            <Lines>
              {itemsOf(found).map((invitation) => (
                <Line
                  key={invitation.id}
                  title={<span className="break-all">{invitation.email}</span>}
                  note={
                    <>
                      Invited by {invitation.invited_by} <Time at={invitation.created_at} />, ends <Time at={invitation.expires_at} />
                    </>
                  }
                  actions={
                    <>
                      <Badge>{ROLES[invitation.role].name}</Badge>
                      {may && (
                        <Button size="small" look="quiet" onClick={() => setRevoking(invitation)} aria-label={`Revoke the invitation of ${invitation.email}`}>
                          Revoke
                        </Button>
                      )}
                    </>
                  }
                />
              ))}
            </Lines>
          )
        }
      </Loaded>
      <More query={invitations} />
      {revoking && (
        <Ask
          title="Revoke this invitation?"
          action="Revoke"
          onClose={() => setRevoking(undefined)}
          onConfirm={async () => {
            await api.DELETE("/api/invitations/{invitation_id}", { params: { path: { invitation_id: revoking.id } } });
            await refresh("/api/invitations", "/api/plan");
          }}
        >
          <p>The link that {revoking.email} got stops working. You can invite them again.</p>
        </Ask>
      )}
    </Section>
  );
}
