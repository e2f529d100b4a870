"""Which variable fills which field of `AuthConfig`."""

from __future__ import annotations

from datetime import timedelta

from authsvc.conf import schema, values
from authsvc.conf.env import Variables

PROVIDERS = (
    "apple", "azure", "bitbucket", "discord", "facebook", "figma", "fly", "github", "gitlab", "google", "kakao",
    "keycloak", "linkedin", "linkedin_oidc", "notion", "slack", "slack_oidc", "snapchat", "spotify", "twitch",
    "twitter", "vercel_marketplace", "workos", "x", "zoom",
)  # fmt: skip
NOTIFICATIONS = (
    "password_changed", "email_changed", "phone_changed", "identity_linked", "identity_unlinked",
    "mfa_factor_enrolled", "mfa_factor_unenrolled",
)  # fmt: skip
MAIL_KINDS = (
    "invite", "confirmation", "recovery", "magic_link", "email_change", "reauthentication",
    *(f"{name}_notification" for name in NOTIFICATIONS),
)  # fmt: skip
LINK_PATHS = ("invite", "confirmation", "recovery", "email_change")

_SHORTEST_PASSWORD = 6
_SHORTEST_FLOW = timedelta(seconds=300)
_SHORTEST_CHALLENGE = timedelta(seconds=300)


def build(v: Variables) -> schema.AuthConfig:
    """All settings. What cannot be read is in `v.problems` afterwards, and its default in the result."""
    return schema.AuthConfig(
        site=schema.Site(url=v.required("SITE_URL"), allow_list=v.items("URI_ALLOW_LIST")),
        api=_api(v),
        database=_database(v),
        jwt=_jwt(v),
        signup=_signup(v),
        passwords=_passwords(v),
        breaches=_breaches(v),
        refresh=_refresh(v),
        sessions=_sessions(v),
        codes=schema.OneTimeCodes(
            max_attempts=v.count("SECURITY_OTP_MAX_ATTEMPTS", schema.OneTimeCodes().max_attempts)
        ),
        flows=schema.Flows(
            expiry=max(v.duration("EXTERNAL_FLOW_STATE_EXPIRY_DURATION", schema.Flows().expiry), _SHORTEST_FLOW)
        ),
        logging=_logging(v),
        audit=schema.Audit(disable_postgres=v.flag("AUDIT_LOG_DISABLE_POSTGRES", default=False)),
        telemetry=_telemetry(v),
        providers={name: _provider(v, f"EXTERNAL_{name.upper()}") for name in PROVIDERS},
        federation=_federation(v),
        custom_providers=_custom_providers(v),
        smtp=_smtp(v),
        mailer=_mailer(v),
        recipients=_recipients(v),
        sms=_sms(v),
        mfa=_mfa(v),
        passkeys=schema.Passkeys(
            enabled=v.flag("PASSKEY_ENABLED", schema.Passkeys().enabled),
            max_per_user=v.integer("PASSKEY_MAX_PASSKEYS_PER_USER", schema.Passkeys().max_per_user),
        ),
        webauthn=_webauthn(v),
        captcha=_captcha(v),
        limits=_limits(v),
        index_worker=schema.IndexWorker(
            ensure_user_search=v.flag(
                "INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST", schema.IndexWorker().ensure_user_search
            ),
            max_users=v.count("INDEX_WORKER_MAX_USERS_THRESHOLD", schema.IndexWorker().max_users),
        ),
        reloading=_reloading(v),
        experimental=_experimental(v),
        console=schema.Console(
            enabled=v.flag("OPERATOR_CONSOLE_ENABLED", schema.Console().enabled),
            allowed_networks=v.read(
                "OPERATOR_ALLOWED_NETWORKS", "list of networks", values.networks, schema.Console().allowed_networks
            ),
        ),
    )


def _api(v: Variables) -> schema.Api:
    default = schema.Api(external_url="")
    return schema.Api(
        external_url=v.required("API_EXTERNAL_URL"),
        host=v.text("API_HOST", default.host),
        port=v.port("PORT", default.port),
        request_id_header=v.text("REQUEST_ID_HEADER", default.request_id_header),
        max_request_duration=v.duration("API_MAX_REQUEST_DURATION", default.max_request_duration),
        internal_http_timeout=v.duration("INTERNAL_HTTP_TIMEOUT", default.internal_http_timeout)
        or default.internal_http_timeout,
        cors_allowed_headers=v.items("CORS_ALLOWED_HEADERS", default.cors_allowed_headers),
        forwarded_for_enabled=v.flag("SECURITY_FORWARDED_FOR_ENABLED", default.forwarded_for_enabled),
        trusted_proxies=v.read("TRUSTED_PROXIES", "list of networks", values.networks, default.trusted_proxies),
        server=v.read("SERVER", "server", values.server, default.server),
        processes=v.count("WEB_CONCURRENCY", default.processes),
        docs_enabled=v.flag("API_DOCS_ENABLED", default.docs_enabled),
    )


def _database(v: Variables) -> schema.Database:
    default = schema.Database(url=schema.Secret(""))
    keys = v.read("SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", "map", values.pairs, {}, is_secret=True)
    return schema.Database(
        url=v.required_secret("DATABASE_URL"),
        namespace=v.text("DB_NAMESPACE", default.namespace),
        max_pool_size=v.count("DB_MAX_POOL_SIZE", default.max_pool_size),
        prepared_statements_enabled=v.flag("DB_PREPARED_STATEMENTS_ENABLED", default.prepared_statements_enabled),
        encrypt=v.flag("SECURITY_DB_ENCRYPTION_ENCRYPT", default.encrypt),
        encryption_key_id=v.text("SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID", default.encryption_key_id),
        encryption_key=v.secret("SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY"),
        decryption_keys={key_id: schema.Secret(key) for key_id, key in keys.items()},
        cleanup_enabled=v.flag("DB_CLEANUP_ENABLED", default.cleanup_enabled),
    )


def _jwt(v: Variables) -> schema.Jwt:
    default = schema.Jwt(secret=schema.Secret(""))
    # An empty name among the roles would open the admin endpoints to every user without a role.
    roles = tuple(role.strip() for role in v.items("JWT_ADMIN_ROLES") if role.strip())
    return schema.Jwt(
        secret=v.required_secret("JWT_SECRET"),
        exp=v.whole_seconds("JWT_EXP", default.exp),
        aud=v.text("JWT_AUD", default.aud),
        issuer=v.text("JWT_ISSUER", default.issuer),
        admin_roles=roles or default.admin_roles,
        admin_group_name=v.text("JWT_ADMIN_GROUP_NAME", default.admin_group_name),
        default_group_name=v.text("JWT_DEFAULT_GROUP_NAME", default.default_group_name),
        keys=v.read("JWT_KEYS", "key set", values.web_keys, default.keys, is_secret=True),
        key_id=v.text("JWT_KEY_ID", default.key_id),
        valid_methods=v.items("JWT_VALID_METHODS", default.valid_methods),
    )


def _signup(v: Variables) -> schema.Signup:
    default = schema.Signup()
    return schema.Signup(
        disabled=v.flag("DISABLE_SIGNUP", default.disabled),
        email_enabled=v.flag("EXTERNAL_EMAIL_ENABLED", default.email_enabled),
        phone_enabled=v.flag("EXTERNAL_PHONE_ENABLED", default.phone_enabled),
        anonymous_enabled=v.flag("EXTERNAL_ANONYMOUS_USERS_ENABLED", default.anonymous_enabled),
        magic_link_enabled=v.flag("EXTERNAL_EMAIL_MAGIC_LINK_ENABLED", default.magic_link_enabled),
        manual_linking_enabled=v.flag("SECURITY_MANUAL_LINKING_ENABLED", default.manual_linking_enabled),
        strict_privacy_enabled=v.flag("SECURITY_STRICT_PRIVACY_ENABLED", default.strict_privacy_enabled),
    )


def _passwords(v: Variables) -> schema.Passwords:
    default = schema.Passwords()
    return schema.Passwords(
        min_length=max(v.integer("PASSWORD_MIN_LENGTH", default.min_length), _SHORTEST_PASSWORD),
        required_characters=v.read(
            "PASSWORD_REQUIRED_CHARACTERS", "character sets", values.character_sets, default.required_characters
        ),
        update_requires_reauthentication=v.flag(
            "SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION", default.update_requires_reauthentication
        ),
        update_requires_current=v.flag(
            "SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD", default.update_requires_current
        ),
    )


def _breaches(v: Variables) -> schema.Breaches:
    default = schema.Breaches()
    return schema.Breaches(
        enabled=v.flag("PASSWORD_HIBP_ENABLED", default.enabled),
        fail_closed=v.flag("PASSWORD_HIBP_FAIL_CLOSED", default.fail_closed),
        user_agent=v.text("PASSWORD_HIBP_USER_AGENT") or default.user_agent,
        bloom_enabled=v.flag("PASSWORD_HIBP_BLOOM_ENABLED", default.bloom_enabled),
        bloom_items=v.count("PASSWORD_HIBP_BLOOM_ITEMS", default.bloom_items),
        bloom_false_positives=v.number("PASSWORD_HIBP_BLOOM_FALSE_POSITIVES", default.bloom_false_positives),
    )


def _refresh(v: Variables) -> schema.Refresh:
    default = schema.Refresh()
    return schema.Refresh(
        rotation_enabled=v.flag("SECURITY_REFRESH_TOKEN_ROTATION_ENABLED", default.rotation_enabled),
        reuse_interval=v.seconds("SECURITY_REFRESH_TOKEN_REUSE_INTERVAL", default.reuse_interval),
        allow_reuse=v.flag("SECURITY_REFRESH_TOKEN_ALLOW_REUSE", default.allow_reuse),
    )


def _sessions(v: Variables) -> schema.Sessions:
    default = schema.Sessions()
    return schema.Sessions(
        timebox=v.duration("SESSIONS_TIMEBOX", default.timebox),
        inactivity_timeout=v.duration("SESSIONS_INACTIVITY_TIMEOUT", default.inactivity_timeout),
        allow_low_aal=v.duration("SESSIONS_ALLOW_LOW_AAL", default.allow_low_aal),
        single_per_user=v.flag("SESSIONS_SINGLE_PER_USER", default.single_per_user),
        tags=v.items("SESSIONS_TAGS", default.tags),
    )


def _logging(v: Variables) -> schema.Logging:
    default = schema.Logging()
    return schema.Logging(
        level=v.read("LOG_LEVEL", "level", values.level, default.level),
        file=v.text("LOG_FILE", default.file),
        sql=v.read("LOG_SQL", "choice", values.logged_sql, default.sql),
    )


def _telemetry(v: Variables) -> schema.Telemetry:
    default = schema.Telemetry()
    return schema.Telemetry(
        tracing_enabled=v.flag("TRACING_ENABLED", default.tracing_enabled),
        tracing_exporter=v.text("TRACING_EXPORTER", default.tracing_exporter),
        metrics_enabled=v.flag("METRICS_ENABLED", default.metrics_enabled),
        metrics_exporter=v.text("METRICS_EXPORTER", default.metrics_exporter),
        prometheus_host=v.text("OTEL_EXPORTER_PROMETHEUS_HOST", default.prometheus_host),
        prometheus_port=v.port("OTEL_EXPORTER_PROMETHEUS_PORT", default.prometheus_port),
        # Other programs read this bare name too and take other values, which must not stop the start.
        debug=v.text("DEBUG") == "true",
        resource_attributes=v.read("OTEL_RESOURCE_ATTRIBUTES", "map", values.resource_attributes, {}, is_optional=True),
        otlp_protocol=v.text("OTEL_EXPORTER_OTLP_PROTOCOL") or default.otlp_protocol,
        variables=v.standard("OTEL_"),
    )


def _provider(v: Variables, name: str) -> schema.Provider:
    default = schema.Provider()
    return schema.Provider(
        enabled=v.flag(f"{name}_ENABLED", default.enabled),
        client_ids=v.items(f"{name}_CLIENT_ID", default.client_ids),
        secret=v.secret(f"{name}_SECRET"),
        redirect_uri=v.text(f"{name}_REDIRECT_URI", default.redirect_uri),
        url=v.text(f"{name}_URL", default.url).removesuffix("/"),
        email_optional=v.flag(f"{name}_EMAIL_OPTIONAL", default.email_optional),
        skip_nonce_check=v.flag(f"{name}_SKIP_NONCE_CHECK", default.skip_nonce_check),
    )


def _federation(v: Variables) -> schema.Federation:
    default = schema.Federation()
    alone = {name: name for name in v.items("EXPERIMENTAL_PROVIDERS_WITH_OWN_LINKING_DOMAIN")}
    domains = v.read("EXPERIMENTAL_PROVIDER_LINKING_DOMAINS", "map", values.assignments, default.linking_domains)
    return schema.Federation(
        redirect_url=v.text("EXTERNAL_REDIRECT_URL", default.redirect_url),
        ios_bundle_id=v.text("EXTERNAL_IOS_BUNDLE_ID", default.ios_bundle_id),
        id_token_issuers=v.items("EXTERNAL_ALLOWED_ID_TOKEN_ISSUERS", default.id_token_issuers),
        discovery_max_age=v.duration("EXTERNAL_OIDC_PROVIDER_CACHE_TTL", default.discovery_max_age),
        linking_domains={**alone, **domains},
        flow_binding_enabled=v.flag("EXTERNAL_FLOW_BINDING_ENABLED", default.flow_binding_enabled),
    )


def _custom_providers(v: Variables) -> schema.CustomProviders:
    default = schema.CustomProviders()
    return schema.CustomProviders(
        enabled=v.flag("CUSTOM_OAUTH_ENABLED", default.enabled),
        most=v.count("CUSTOM_OAUTH_MAX_PROVIDERS", default.most),
        external_url=v.text("CUSTOM_OAUTH_EXTERNAL_URL", default.external_url).removesuffix("/"),
        private_networks_enabled=v.flag("CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED", default.private_networks_enabled),
    )


def _smtp(v: Variables) -> schema.Smtp:
    default = schema.Smtp()
    admin_email = v.text("SMTP_ADMIN_EMAIL", default.admin_email)
    return schema.Smtp(
        admin_email=admin_email,
        host=v.text("SMTP_HOST", default.host),
        port=v.port("SMTP_PORT", default.port),
        user=v.text("SMTP_USER", default.user),
        password=v.secret("SMTP_PASS"),
        sender_name=v.text("SMTP_SENDER_NAME", admin_email),
        max_frequency=v.seconds("SMTP_MAX_FREQUENCY", timedelta()) or default.max_frequency,
        headers=v.read("SMTP_HEADERS", "JSON", values.header_lists, default.headers, is_secret=True, is_optional=True),
        logging_enabled=v.flag("SMTP_LOGGING_ENABLED", default.logging_enabled),
    )


def _mailer(v: Variables) -> schema.Mailer:
    default = schema.Mailer()
    return schema.Mailer(
        autoconfirm=v.flag("MAILER_AUTOCONFIRM", default.autoconfirm),
        allow_unverified_email_sign_ins=v.flag(
            "MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS", default.allow_unverified_email_sign_ins
        ),
        secure_email_change_enabled=v.flag("MAILER_SECURE_EMAIL_CHANGE_ENABLED", default.secure_email_change_enabled),
        otp_exp=v.whole_seconds("MAILER_OTP_EXP", default.otp_exp),
        otp_length=v.code_length("MAILER_OTP_LENGTH", default.otp_length),
        url_paths=_filled(v, "MAILER_URLPATHS", LINK_PATHS),
        subjects=_filled(v, "MAILER_SUBJECTS", MAIL_KINDS),
        templates=_filled(v, "MAILER_TEMPLATES", MAIL_KINDS),
        notifications=frozenset(
            name for name in NOTIFICATIONS if v.flag(f"MAILER_NOTIFICATIONS_{name.upper()}_ENABLED", default=False)
        ),
        external_hosts=v.items("MAILER_EXTERNAL_HOSTS", default.external_hosts),
        backend=v.read("MAILER_BACKEND", "dotted name", values.dotted_name, default.backend),
        backend_options=v.read(
            "MAILER_BACKEND_OPTIONS", "JSON", values.json_object, default.backend_options, is_secret=True
        ),
        dev_inbox_enabled=v.flag("MAILER_DEV_INBOX_ENABLED", default.dev_inbox_enabled),
        dev_inbox_folder=v.text("MAILER_DEV_INBOX_FOLDER", default.dev_inbox_folder),
        worker_enabled=v.flag("MAILER_WORKER_ENABLED", default.worker_enabled),
        template_max_size=v.count("MAILER_TEMPLATE_MAX_SIZE", default.template_max_size) or default.template_max_size,
        template_max_age=v.duration("MAILER_TEMPLATE_MAX_AGE", default.template_max_age),
        template_retry_interval=v.duration("MAILER_TEMPLATE_RETRY_INTERVAL", default.template_retry_interval),
        template_reloading_enabled=v.flag("MAILER_TEMPLATE_RELOADING_ENABLED", default.template_reloading_enabled),
        template_reloading_max_idle=v.duration(
            "MAILER_TEMPLATE_RELOADING_MAX_IDLE", default.template_reloading_max_idle
        ),
        generate_link_invite_enabled=v.flag(
            "MAILER_GENERATE_LINK_INVITE_ENABLED", default.generate_link_invite_enabled
        ),
        link_confirm_page_enabled=v.flag("MAILER_LINK_CONFIRM_PAGE_ENABLED", default.link_confirm_page_enabled),
    )


def _recipients(v: Variables) -> schema.Recipients:
    default = schema.Recipients()
    return schema.Recipients(
        authorized_addresses=v.items("EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES", default.authorized_addresses),
        extended_validation=v.flag("MAILER_EMAIL_VALIDATION_EXTENDED", default.extended_validation),
        service_url=v.text("MAILER_EMAIL_VALIDATION_SERVICE_URL", default.service_url),
        service_headers=v.read(
            "MAILER_EMAIL_VALIDATION_SERVICE_HEADERS",
            "JSON",
            values.header_lists,
            default.service_headers,
            is_secret=True,
            is_optional=True,
        ),
        blocked_exchangers=v.read(
            "MAILER_EMAIL_VALIDATION_BLOCKED_MX", "JSON", values.hosts, default.blocked_exchangers, is_optional=True
        ),
    )


def _sms(v: Variables) -> schema.Sms:
    default = schema.Sms()
    return schema.Sms(
        autoconfirm=v.flag("SMS_AUTOCONFIRM", default.autoconfirm),
        max_frequency=v.seconds("SMS_MAX_FREQUENCY", default.max_frequency) or default.max_frequency,
        otp_exp=v.whole_seconds("SMS_OTP_EXP", default.otp_exp),
        otp_length=v.code_length("SMS_OTP_LENGTH", default.otp_length),
        provider=v.text("SMS_PROVIDER", default.provider),
        template=v.text("SMS_TEMPLATE") or default.template,
        test_codes=v.read("SMS_TEST_OTP", "map", values.codes_of_phones, default.test_codes, is_secret=True),
        test_codes_end_at=v.read("SMS_TEST_OTP_VALID_UNTIL", "time", values.moment, default.test_codes_end_at),
        twilio=_twilio(v, "SMS_TWILIO"),
        twilio_verify=_twilio(v, "SMS_TWILIO_VERIFY"),
        messagebird=schema.Messagebird(
            access_key=v.secret("SMS_MESSAGEBIRD_ACCESS_KEY"), originator=v.text("SMS_MESSAGEBIRD_ORIGINATOR")
        ),
        textlocal=schema.Textlocal(api_key=v.secret("SMS_TEXTLOCAL_API_KEY"), sender=v.text("SMS_TEXTLOCAL_SENDER")),
        vonage=schema.Vonage(
            api_key=v.secret("SMS_VONAGE_API_KEY"),
            api_secret=v.secret("SMS_VONAGE_API_SECRET"),
            sender=v.text("SMS_VONAGE_FROM"),
        ),
    )


def _twilio(v: Variables, name: str) -> schema.Twilio:
    return schema.Twilio(
        account_sid=v.text(f"{name}_ACCOUNT_SID"),
        auth_token=v.secret(f"{name}_AUTH_TOKEN"),
        message_service_sid=v.text(f"{name}_MESSAGE_SERVICE_SID"),
        content_sid=v.text(f"{name}_CONTENT_SID"),
    )


def _mfa(v: Variables) -> schema.Mfa:
    default = schema.Mfa()
    expiry = v.read("MFA_CHALLENGE_EXPIRY_DURATION", "float", values.length_in_seconds, default.challenge_expiry)
    return schema.Mfa(
        totp_enroll_enabled=v.flag("MFA_TOTP_ENROLL_ENABLED", default.totp_enroll_enabled),
        totp_verify_enabled=v.flag("MFA_TOTP_VERIFY_ENABLED", default.totp_verify_enabled),
        phone_enroll_enabled=v.flag("MFA_PHONE_ENROLL_ENABLED", default.phone_enroll_enabled),
        phone_verify_enabled=v.flag("MFA_PHONE_VERIFY_ENABLED", default.phone_verify_enabled),
        web_authn_enroll_enabled=v.flag("MFA_WEB_AUTHN_ENROLL_ENABLED", default.web_authn_enroll_enabled),
        web_authn_verify_enabled=v.flag("MFA_WEB_AUTHN_VERIFY_ENABLED", default.web_authn_verify_enabled),
        challenge_expiry=max(expiry, _SHORTEST_CHALLENGE),
        factor_expiry=max(v.duration("MFA_FACTOR_EXPIRY_DURATION", default.factor_expiry), _SHORTEST_CHALLENGE),
        max_enrolled=int(v.number("MFA_MAX_ENROLLED_FACTORS", default.max_enrolled)),
        max_verified=v.integer("MFA_MAX_VERIFIED_FACTORS", default.max_verified),
        phone_otp_length=v.code_length("MFA_PHONE_OTP_LENGTH", default.phone_otp_length),
        phone_template=v.text("MFA_PHONE_TEMPLATE") or default.phone_template,
        phone_max_frequency=v.seconds("MFA_PHONE_MAX_FREQUENCY", default.phone_max_frequency)
        or default.phone_max_frequency,
        recovery_codes_enabled=v.flag("MFA_RECOVERY_CODES_ENABLED", default.recovery_codes_enabled),
    )


def _webauthn(v: Variables) -> schema.WebAuthn:
    default = schema.WebAuthn()
    return schema.WebAuthn(
        rp_id=v.text("WEBAUTHN_RP_ID", default.rp_id),
        rp_display_name=v.text("WEBAUTHN_RP_DISPLAY_NAME", default.rp_display_name),
        rp_origins=v.items("WEBAUTHN_RP_ORIGINS", default.rp_origins),
        challenge_expiry=v.duration("WEBAUTHN_CHALLENGE_EXPIRY_DURATION", default.challenge_expiry)
        or default.challenge_expiry,
    )


def _captcha(v: Variables) -> schema.Captcha:
    default = schema.Captcha()
    return schema.Captcha(
        enabled=v.flag("SECURITY_CAPTCHA_ENABLED", default.enabled),
        provider=v.text("SECURITY_CAPTCHA_PROVIDER", default.provider).lower(),
        secret=schema.Secret(v.text("SECURITY_CAPTCHA_SECRET").strip()),
        timeout=v.duration("SECURITY_CAPTCHA_TIMEOUT", default.timeout) or default.timeout,
    )


def _limits(v: Variables) -> schema.Limits:
    default = schema.Limits()
    return schema.Limits(
        header=v.text("RATE_LIMIT_HEADER", default.header),
        email_sent=v.rate("RATE_LIMIT_EMAIL_SENT", default.email_sent),
        sms_sent=v.rate("RATE_LIMIT_SMS_SENT", default.sms_sent),
        verify=v.number("RATE_LIMIT_VERIFY", default.verify),
        token_refresh=v.number("RATE_LIMIT_TOKEN_REFRESH", default.token_refresh),
        otp=v.number("RATE_LIMIT_OTP", default.otp),
        anonymous_users=v.number("RATE_LIMIT_ANONYMOUS_USERS", default.anonymous_users),
        factors=v.number("MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY", default.factors),
        passkey=v.number("RATE_LIMIT_PASSKEY", default.passkey),
    )


def _reloading(v: Variables) -> schema.Reloading:
    default = schema.Reloading()
    return schema.Reloading(
        notify_enabled=v.flag("RELOADING_NOTIFY_ENABLED", default.notify_enabled),
        poller_enabled=v.flag("RELOADING_POLLER_ENABLED", default.poller_enabled),
        poller_interval=v.duration("RELOADING_POLLER_INTERVAL", default.poller_interval),
        signal_enabled=v.flag("RELOADING_SIGNAL_ENABLED", default.signal_enabled),
        signal_number=v.integer("RELOADING_SIGNAL_NUMBER", default.signal_number),
        grace_period=v.duration("RELOADING_GRACE_PERIOD_INTERVAL", default.grace_period),
    )


def _experimental(v: Variables) -> schema.Experimental:
    default = schema.Experimental()
    return schema.Experimental(
        cursor_pagination_enabled=v.flag("EXPERIMENTAL_CURSOR_PAGINATION_ENABLED", default.cursor_pagination_enabled),
        email_identity_on_password_enabled=v.flag(
            "EXPERIMENTAL_CREATE_EMAIL_IDENTITY_ON_PASSWORD_SET_ENABLED", default.email_identity_on_password_enabled
        ),
    )


def _filled(v: Variables, prefix: str, names: tuple[str, ...]) -> dict[str, str]:
    """Lower-case name → text, of those that are not empty."""
    texts = {name: v.text(f"{prefix}_{name.upper()}") for name in names}
    return {name: text for name, text in texts.items() if text}
